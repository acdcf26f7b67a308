/**
 * What a runtime without images makes of a container. One with a command runs it with the files of the machine. What one
 * without a command should run is written in its image alone: it idles, and everybody is told. An init container of that kind
 * is not started at all, since the containers after it would take its work for done. Arguments alone do not say what to run.
 */
import { type AnyContainer, isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import { idleCondition } from '../../kube/kinds/pod/pod-status.ts';
import type { PodStatus } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import type { Runtime } from '../../runtimes/runtime.ts';

type Images = Pick<Runtime, 'images'>;

function needsImage({ command = [] }: Pick<AnyContainer, 'command'>): boolean {
  return command.length === 0;
}

const cure = (how = ''): string => `give it a command${how}, or use a node whose runtime has images (--runtime cri)`;

/** What is recorded when a container is started for the first time; undefined where its image is used. */
export function imageEvent(
  { name, image = '', command = [], args = [] }: AnyContainer,
  { images }: Images,
): { readonly type: 'Normal' | 'Warning'; readonly reason: string; readonly message: string } | undefined {
  if (images !== undefined) return undefined;
  const [program] = command;
  const unused = `Image ${goQuote(image)} is not used: this runtime has no images`;
  if (program !== undefined) {
    return {
      type: 'Normal',
      reason: 'ImageNotUsed',
      message: `${unused}, and runs ${goQuote(program)} of this machine`,
    };
  }
  const [without, how] =
    args.length === 0 ? ['no command', ''] : ['arguments and no command', ' (kubectl run has --command)'];
  const message = `${unused}. Container ${name} has ${without}, so it only idles: ${cure(how)}`;
  return { type: 'Warning', reason: 'ContainerIdle', message };
}

/** Why an init container is not started; undefined when it is. */
export function initRefusal(pod: Pod, container: AnyContainer, { images }: Images): string | undefined {
  const isInit = pod.spec.initContainers?.some(({ name }) => name === container.name) ?? false;
  if (images !== undefined || !isInit || isSidecar(container) || !needsImage(container)) return undefined;
  const image = goQuote(container.image ?? '');
  return `init container ${container.name} has no command: what it should do is written in image ${image}, and this runtime has no images; ${cure()}`;
}

export interface IdleContainers {
  /** They run, and do nothing. */
  readonly idle: readonly string[];
  /** They are not started. */
  readonly init: readonly string[];
}

export function idleContainers({ spec }: Pod, { images }: Images): IdleContainers {
  if (images !== undefined) return { idle: [], init: [] };
  const { initContainers = [], containers } = spec;
  const names = (some: readonly AnyContainer[]): readonly string[] => some.filter(needsImage).map(({ name }) => name);
  return {
    idle: names([...initContainers.filter(isSidecar), ...containers]),
    init: names(initContainers.filter((one) => !isSidecar(one))),
  };
}

/** Undefined for a pod in which every container does what it should. */
export function idleConditionOf({
  idle,
  init,
}: IdleContainers): NonNullable<PodStatus['conditions']>[number] | undefined {
  const parts = [
    ...(init.length === 0 ? [] : [`init containers without a command are not started: [${init.join(' ')}]`]),
    ...(idle.length === 0 ? [] : [`containers without a command only idle: [${idle.join(' ')}]`]),
  ];
  if (parts.length === 0) return undefined;
  const message = `this runtime has no images; ${parts.join(', ')}`;
  return { type: idleCondition, status: 'True', reason: 'NoImages', message };
}
