import type { RunningMachine } from '../agent/up.ts';

export async function followFirstPods(_machine: RunningMachine, _signal: AbortSignal): Promise<void> {}
