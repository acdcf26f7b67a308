/** The pods that an API server has bound to this node, as a stream of complete lists. */
import type { ReflectorDeps } from '../../client/reflector.ts';
import { reflect, reflectorDefaults } from '../../client/reflector.ts';
import { objectKey, pods, withShape } from '../../client/resource-reference.ts';
import type { Pod } from '../../kube/objects/pod.ts';
import { pod } from '../../kube/objects/pod.ts';

const resource = withShape(pods, pod);

export async function* podLists(
  deps: ReflectorDeps,
  nodeName: string,
  signal: AbortSignal,
): AsyncGenerator<readonly Pod[]> {
  const target = { ...reflectorDefaults, resource, fieldSelector: `spec.nodeName=${nodeName}` };
  let known = new Map<string, Pod>();
  for await (const reflection of reflect(deps, target, signal)) {
    if (reflection.kind === 'replaced') known = new Map(reflection.objects.map((one) => [objectKey(one), one]));
    else if (reflection.kind === 'changed') known.set(objectKey(reflection.object), reflection.object);
    else known.delete(objectKey(reflection.object));
    yield [...known.values()];
  }
}
