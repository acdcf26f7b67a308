/** The pods of an API server in memory. Patches of a status are applied as far as tests of pods need it. */
import type { Pod, PodStatus } from '../kube/objects/pod.ts';
import type { PodApi } from '../pods/pod-api.ts';
import { podUid } from '../pods/pod-names.ts';

interface ConditionPatch {
  readonly type: string;
  readonly $patch?: string;
  readonly [field: string]: unknown;
}

export class MemoryPodApi implements PodApi {
  readonly calls: string[] = [];
  readonly patches: unknown[] = [];
  failure: Error | undefined;
  readonly #pods = new Map<string, Pod>();
  readonly #changed: (pods: readonly Pod[]) => void;

  constructor(changed: (pods: readonly Pod[]) => void = () => {}) {
    this.#changed = changed;
  }

  put(pod: Pod): void {
    this.#pods.set(`${pod.metadata.namespace}/${pod.metadata.name}`, pod);
    this.#changed(this.pods());
  }

  remove(pod: Pod): void {
    this.#pods.delete(`${pod.metadata.namespace}/${pod.metadata.name}`);
    this.#changed(this.pods());
  }

  pods(): readonly Pod[] {
    return [...this.#pods.values()];
  }

  find(name: string, namespace = 'shop'): Pod | undefined {
    return this.#pods.get(`${namespace}/${name}`);
  }

  async get(namespace: string, name: string): Promise<Pod | undefined> {
    if (this.failure !== undefined) throw this.failure;
    return this.find(name, namespace);
  }

  async patchStatus(namespace: string, name: string, patch: unknown): Promise<Pod | undefined> {
    if (this.failure !== undefined) throw this.failure;
    const pod = this.find(name, namespace);
    const { metadata, status } = patch as { metadata: { uid: string }; status: Record<string, unknown> };
    if (pod === undefined || podUid(pod) !== metadata.uid) return undefined;
    this.calls.push(`patch ${name}`);
    this.patches.push(status);
    const patched = { ...pod, status: applied(pod.status ?? {}, status) };
    this.put(patched);
    return patched;
  }

  async delete(namespace: string, name: string, uid: string): Promise<void> {
    const pod = this.find(name, namespace);
    this.calls.push(`delete ${name}`);
    if (pod !== undefined && podUid(pod) === uid) this.remove(pod);
  }

  async create(pod: Pod): Promise<boolean> {
    const { namespace = '', name } = pod.metadata;
    this.calls.push(`create ${name}`);
    if (this.find(name, namespace) !== undefined) return false;
    this.put({ ...pod, metadata: { ...pod.metadata, uid: `uid-of-${name}-${this.calls.length}` } });
    return true;
  }
}

function applied(status: PodStatus, patch: Readonly<Record<string, unknown>>): PodStatus {
  const result: Record<string, unknown> = { ...status };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else if (key === 'conditions') {
      const merged = new Map((status.conditions ?? []).map((one): [string, object] => [one.type, one]));
      for (const { $patch, ...condition } of value as ConditionPatch[]) {
        if ($patch === 'delete') merged.delete(condition.type);
        else {
          const fields = Object.entries({ ...merged.get(condition.type), ...condition });
          merged.set(condition.type, Object.fromEntries(fields.filter(([, field]) => field !== null)));
        }
      }
      result[key] = [...merged.values()];
    } else if (key === 'podIPs') result[key] = (value as { ip?: string }[]).filter(({ ip }) => ip !== undefined);
    else result[key] = value;
  }
  return result;
}
