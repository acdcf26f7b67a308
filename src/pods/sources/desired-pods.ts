/**
 * The pods that should be on this node, by UID and by full name, and the mirrors of static ones. What runs is not known here.
 */
import { isMirrorPod, isStaticPod, podFullName, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';

export class DesiredPods {
  readonly #pods = new Map<string, Pod>();
  readonly #byFullName = new Map<string, Pod>();
  readonly #mirrors = new Map<string, Pod>();
  readonly #mirrorsByFullName = new Map<string, Pod>();

  put(pod: Pod): void {
    const [byUid, byName] = this.#tables(pod);
    byUid.set(podUid(pod), pod);
    byName.set(podFullName(pod), pod);
  }

  remove(pod: Pod): void {
    const [byUid, byName] = this.#tables(pod);
    byUid.delete(podUid(pod));
    // A successor of the same name may have been added already.
    const named = byName.get(podFullName(pod));
    if (named !== undefined && podUid(named) === podUid(pod)) byName.delete(podFullName(pod));
  }

  /** Without mirrors. */
  pods(): readonly Pod[] {
    return [...this.#pods.values()];
  }

  mirrors(): readonly Pod[] {
    return [...this.#mirrors.values()];
  }

  get(uid: string): Pod | undefined {
    return this.#pods.get(uid);
  }

  getByFullName(fullName: string): Pod | undefined {
    return this.#byFullName.get(fullName);
  }

  mirrorOf(pod: Pod): Pod | undefined {
    return this.#mirrorsByFullName.get(podFullName(pod));
  }

  staticPodOf(mirror: Pod): Pod | undefined {
    const pod = this.#byFullName.get(podFullName(mirror));
    return pod !== undefined && isStaticPod(pod) ? pod : undefined;
  }

  /**
   * The pod as the API server had it last; for a static pod, its mirror. Undefined while there is none, and when the pod was
   * deleted: a node may not read it then.
   */
  apiPodOf(pod: Pod): Pod | undefined {
    return isStaticPod(pod) ? this.mirrorOf(pod) : this.get(podUid(pod));
  }

  orphanMirrors(): readonly Pod[] {
    return this.mirrors().filter((mirror) => this.staticPodOf(mirror) === undefined);
  }

  #tables(pod: Pod): readonly [Map<string, Pod>, Map<string, Pod>] {
    return isMirrorPod(pod) ? [this.#mirrors, this.#mirrorsByFullName] : [this.#pods, this.#byFullName];
  }
}
