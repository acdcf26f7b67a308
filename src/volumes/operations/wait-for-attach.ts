/** The step of a mount that waits for the device, whoever connects it. */
import { OperationTimeoutError } from '../operation-errors.ts';
import type { DesiredMount } from '../desired-state.ts';
import { canAttach } from '../volume-identity.ts';
import { failedStep, subjectOfMount } from './operation-error.ts';
import type { OperationDeps } from './operation-kind.ts';

/** The kubelet's number: some storage takes minutes to appear. */
const waitMsMax = 10 * 60_000;

/** The device's path; empty for volumes that are not attached. */
export async function waitForAttach(
  { actual, alarms }: Pick<OperationDeps, 'actual' | 'alarms'>,
  mount: DesiredMount,
  prefix: string,
  signal: AbortSignal,
): Promise<string> {
  const { plugin, source, spec, pod, volume } = mount;
  const { devicePath = '' } = actual.volume(volume) ?? {};
  if (plugin.attach === undefined || !canAttach(mount, spec)) return devicePath;
  signal.throwIfAborted();
  const controller = new AbortController();
  const abort = (): void => controller.abort(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  const alarm = alarms.after(waitMsMax, () => controller.abort(new OperationTimeoutError('WaitForAttach', waitMsMax)));
  try {
    return await plugin.attach.waitForAttach({ spec, source, pod, devicePath }, controller.signal);
  } catch (cause) {
    throw failedStep(prefix, subjectOfMount(mount), cause);
  } finally {
    alarm.cancel();
    signal.removeEventListener('abort', abort);
  }
}
