/**
 * Whether this node takes a pod that was bound to it, as the kubelet decides it: a scheduler may have been out of date, and
 * static pods and explicit node names pass none. Reasons and messages are the kubelet's; a port in use also names its pod.
 */
import type { Node } from '../../kube/kinds/node.ts';
import { isCriticalPod, isStaticPod } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { selectsNode, tolerates } from '../../kube/references/node-affinity.ts';
import { qualityOfService } from '../../kube/references/pod-resources.ts';
import { type Amounts, amounts, collide, hostPorts, podRequests } from '../../kube/references/pod-room.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { type ResourceList, isHugePages } from '../../kube/values/quantity.ts';
import type { PodAdmission } from '../../pods/loop/loop-parts.ts';
import type { Eviction } from '../../pods/status/pod-status.ts';
import type { Runtime } from '../../runtimes/runtime.ts';

interface AdmissionDeps {
  readonly isUnderDiskPressure: () => boolean;
  readonly runtime: Pick<Runtime, 'supports'>;
}

interface AdmissionSettings {
  readonly podsMax: number;
  /** Names, or prefixes that end in `*`. */
  readonly allowedUnsafeSysctls: readonly string[];
}

export class NodeAdmission {
  readonly #deps: AdmissionDeps;
  readonly #settings: AdmissionSettings;
  /** Every admission adds up the requests of all pods: each is parsed once. */
  readonly #requests = new WeakMap<Pod, Amounts>();

  constructor(deps: AdmissionDeps, settings: AdmissionSettings) {
    this.#deps = deps;
    this.#settings = settings;
  }

  /**
   * `others` are the active pods. `node` is undefined until the cluster has sent it: its labels and taints are not known
   * then, but what the machine has is.
   */
  admit(pod: Pod, others: readonly Pod[], node: Node | undefined, allocatable: ResourceList): PodAdmission {
    // Whatever it asks for, it would be among the first to be evicted.
    if (this.#deps.isUnderDiskPressure() && !isCriticalPod(pod))
      return { refusal: { reason: 'Evicted', message: 'The node had condition: [DiskPressure]. ' } };
    const refused =
      forbiddenSysctl(pod, this.#settings.allowedUnsafeSysctls) ?? foreignSystem(pod) ?? this.#unsupported(pod);
    if (refused !== undefined) return { refusal: refused };
    const shortages = this.#shortages(pod, others, allocatable);
    const unmet = affinityProblem(pod, node) ?? portProblem(pod, others) ?? taintProblem(pod, node);
    const [shortage] = shortages;
    if (shortage === undefined || (unmet !== undefined && isCriticalPod(pod))) return { refusal: unmet };
    if (!isCriticalPod(pod)) return { refusal: shortage.refusal };
    const lacking = new Map(shortages.map(({ name, missing }) => [name, missing]));
    const preempted = this.#preempted(pod, others, lacking);
    if (preempted !== undefined) return { preempted };
    const left = [...lacking].map(([name, amount]) => `(res: ${name}, q: ${amount}), `).join('');
    const cause = `no set of running pods found to reclaim resources: [${left}]`;
    const message = `Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: ${cause}`;
    return { refusal: { reason: 'UnexpectedAdmissionError', message } };
  }

  /** A runtime that does not know the policy would give the container more groups than it may have. */
  #unsupported({ spec }: Pod): Eviction | undefined {
    const isStrict = spec.securityContext?.supplementalGroupsPolicy === 'Strict';
    if (!isStrict || this.#deps.runtime.supports('supplementalGroupsPolicy', '')) return undefined;
    const message = 'SupplementalGroupsPolicy=Strict is not supported in this node';
    return { reason: 'SupplementalGroupsPolicyNotSupported', message };
  }

  #shortages(pod: Pod, others: readonly Pod[], allocatable: ResourceList): readonly Shortage[] {
    const capacities = new Map([...amounts(allocatable), ['pods', BigInt(this.#settings.podsMax)]]);
    const shortages: Shortage[] = [];
    for (const [name, requested] of this.#requestsOf(pod)) {
      // Devices that the node does not know belong to the cluster; what is not known of the machine is not counted.
      const capacity = capacities.get(name) ?? (isHugePages(name) ? 0n : undefined);
      if (capacity === undefined || requested === 0n) continue;
      const used = others.reduce((sum, other) => sum + (this.#requestsOf(other).get(name) ?? 0n), 0n);
      const missing = requested - (capacity - used);
      if (missing <= 0n) continue;
      const message = `Node didn't have enough resource: ${name}, requested: ${requested}, used: ${used}, capacity: ${capacity}`;
      shortages.push({ name, missing, refusal: { reason: `OutOf${name}`, message } });
    }
    return shortages;
  }

  #requestsOf(pod: Pod): Amounts {
    const known = this.#requests.get(pod);
    if (known !== undefined) return known;
    const requests = podRequests(pod);
    this.#requests.set(pod, requests);
    return requests;
  }

  /** The pods to end so that a critical pod fits; undefined: not even all of them would do. */
  #preempted(pod: Pod, others: readonly Pod[], lacking: Amounts): readonly Pod[] | undefined {
    const given = (one: Pod, name: string): bigint => this.#requestsOf(one).get(name) ?? 0n;
    const suffice = (pods: readonly Pod[]): boolean =>
      [...lacking].every(([name, amount]) => pods.reduce((sum, one) => sum + given(one, name), 0n) >= amount);
    const share = (one: Pod): number =>
      [...lacking].reduce((sum, [name, amount]) => sum + Number(given(one, name)) / Number(amount), 0);
    const rank = ({ spec }: Pod): number => ['Guaranteed', 'Burstable', 'BestEffort'].indexOf(qualityOfService(spec));
    const candidates = others.filter((other) => isPreemptable(pod, other));
    if (!suffice(candidates)) return undefined;
    // The best class of service is spared first, and in each class the pods that would free the least.
    return candidates
      .toSorted((a, b) => rank(a) - rank(b) || share(a) - share(b))
      .reduce((chosen, one) => {
        const fewer = chosen.filter((other) => other !== one);
        return suffice(fewer) ? fewer : chosen;
      }, candidates);
  }
}

interface Shortage {
  readonly name: string;
  readonly missing: bigint;
  readonly refusal: Eviction;
}

function isPreemptable(by: Pod, pod: Pod): boolean {
  if (!isCriticalPod(pod)) return true;
  const [higher, lower] = [by.spec.priority, pod.spec.priority];
  return higher !== undefined && lower !== undefined && higher > lower;
}

function foreignSystem({ metadata, spec }: Pod): Eviction | undefined {
  const label = metadata.labels?.['kubernetes.io/os'] ?? 'linux';
  if (label !== 'linux') {
    const message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
    return { reason: 'PodOSSelectorNodeLabelDoesNotMatch', message };
  }
  if ((spec.os?.name ?? 'linux') === 'linux') return undefined;
  return { reason: 'PodOSNotSupported', message: "Failed to admit pod as the OS field doesn't match node OS" };
}

function predicateFailed(reason: string, description: string): Eviction {
  return { reason, message: `Predicate ${reason} failed: ${description}` };
}

function affinityProblem({ spec }: Pod, node: Node | undefined): Eviction | undefined {
  if (node === undefined || selectsNode(spec, node.metadata)) return undefined;
  return predicateFailed('NodeAffinity', "node(s) didn't match Pod's node affinity/selector");
}

function taintProblem({ metadata, spec }: Pod, node: Node | undefined): Eviction | undefined {
  const taints = (node?.spec?.taints ?? []).filter(({ effect }) => effect === 'NoExecute');
  if (isStaticPod({ metadata }) || taints.every((taint) => spec.tolerations?.some((one) => tolerates(one, taint))))
    return undefined;
  return predicateFailed('TaintToleration', "node(s) had taints that the pod didn't tolerate");
}

function portProblem(pod: Pod, others: readonly Pod[]): Eviction | undefined {
  const wanted = hostPorts(pod);
  if (wanted.length === 0) return undefined;
  for (const other of others) {
    for (const used of hostPorts(other)) {
      if (!wanted.some((port) => collide(port, used))) continue;
      const { namespace, name } = other.metadata;
      const holder = `${used.protocol ?? 'TCP'} port ${used.hostPort} is used by pod ${goQuote(`${namespace}/${name}`)}`;
      return predicateFailed('NodePorts', `node(s) didn't have free ports for the requested pod ports: ${holder}`);
    }
  }
  return undefined;
}

/** Those that belong to a namespace of the pod and do not disturb other pods. */
const safeSysctl =
  /^(kernel\.shm_rmid_forced|net\.ipv4\.(ping_group_range|ip_(local_port_range|local_reserved_ports|unprivileged_port_start)|tcp_(syncookies|keepalive_(time|intvl|probes)|fin_timeout|rmem|wmem|slow_start_after_idle|notsent_lowat)))$/;

function forbiddenSysctl({ spec }: Pod, allowedUnsafe: readonly string[]): Eviction | undefined {
  for (const { name } of spec.securityContext?.sysctls ?? []) {
    const sysctl = normalSysctl(name);
    const isAllowed =
      safeSysctl.test(sysctl) ||
      allowedUnsafe.some((one) => (one.endsWith('*') ? sysctl.startsWith(one.slice(0, -1)) : sysctl === one));
    const [namespace, isShared] = sysctl.startsWith('net.') ? ['Net', spec.hostNetwork] : ['IPC', spec.hostIPC];
    if (isAllowed && isShared !== true) continue;
    const problem = isAllowed ? `not allowed with host ${namespace} enabled` : 'not allowlisted';
    return { reason: 'SysctlForbidden', message: `forbidden sysctl: ${goQuote(sysctl)} ${problem}` };
  }
  return undefined;
}

/** `kernel/shm_rmid_forced` is another way to write `kernel.shm_rmid_forced`: the first separator says which way it is. */
function normalSysctl(name: string): string {
  if (/[./]/.exec(name)?.[0] !== '/') return name;
  return name.replace(/[./]/g, (separator) => (separator === '/' ? '.' : '/'));
}
