/**
 * Which keys of which ConfigMaps and Secrets the pods of a template use, and which of these objects the annotation
 * `mountlet.dev/rollout-on-change` of a workload asks to follow. Credentials for pulling images are not used by a running pod.
 */
import type { AnyContainer } from '../kinds/pod/pod-spec.ts';
import { allContainers } from '../kinds/pod/pod-spec.ts';
import { type PodTemplateSpec, podOfTemplate } from '../kinds/pod/pod.ts';
import type { KeyToPath, Volume } from '../kinds/pod/volume.ts';
import { dnsSubdomainProblems } from '../values/names.ts';
import { referencesOf } from './pod-references.ts';

type FollowedKind = 'ConfigMap' | 'Secret';

export interface UsedObject {
  readonly kind: FollowedKind;
  readonly name: string;
  /** Undefined: all that it has. */
  readonly keys: ReadonlySet<string> | undefined;
  /** Pods do not start without it. */
  readonly isRequired: boolean;
  /** Nor without these. */
  readonly requiredKeys: ReadonlySet<string>;
}

interface Use {
  readonly kind: FollowedKind;
  readonly name: string | undefined;
  readonly optional?: boolean | undefined;
  readonly keys?: readonly string[] | undefined;
  /** All of `keys` if absent. */
  readonly requiredKeys?: readonly string[];
}

/** Each object once, with all that a container or a mounted volume takes of it. */
export function usedObjects(template: PodTemplateSpec): readonly UsedObject[] {
  const found = new Map<string, UsedObject>();
  for (const { kind, name = '', optional = false, keys, requiredKeys = keys ?? [] } of everyUse(template)) {
    if (name === '') continue;
    const id = `${kind}/${name}`;
    const before = found.get(id);
    const isWhole = keys === undefined || (before !== undefined && before.keys === undefined);
    found.set(id, {
      kind,
      name,
      keys: isWhole ? undefined : new Set([...(before?.keys ?? []), ...keys]),
      isRequired: !optional || before?.isRequired === true,
      requiredKeys: new Set([...(before?.requiredKeys ?? []), ...(optional ? [] : requiredKeys)]),
    });
  }
  return [...found.values()];
}

function* everyUse(template: PodTemplateSpec): Generator<Use> {
  const containers = allContainers(template.spec);
  for (const { env = [], envFrom = [] } of containers) {
    for (const { configMapRef, secretRef } of envFrom) {
      if (configMapRef) yield { ...configMapRef, kind: 'ConfigMap' };
      if (secretRef) yield { ...secretRef, kind: 'Secret' };
    }
    for (const { valueFrom: { configMapKeyRef, secretKeyRef } = {} } of env) {
      if (configMapKeyRef) yield { ...configMapKeyRef, kind: 'ConfigMap', keys: [configMapKeyRef.key] };
      if (secretKeyRef) yield { ...secretKeyRef, kind: 'Secret', keys: [secretKeyRef.key] };
    }
  }
  for (const volume of template.spec.volumes ?? []) yield* volumeUses(volume, containers);
  // What drivers read when they mount a volume.
  for (const { kind, name, via } of referencesOf(podOfTemplate(template, { name: '' }))) {
    if (kind === 'Secret' && !readAbove.has(via)) yield { kind, name };
  }
}

const readAbove: ReadonlySet<string> = new Set(['environment', 'secret', 'projected', 'imagePullSecrets']);

interface KeySource {
  readonly items?: readonly KeyToPath[];
  readonly optional?: boolean;
}

function* volumeUses(
  { name: volumeName, configMap, secret, projected }: Volume,
  containers: readonly AnyContainer[],
): Generator<Use> {
  const mounts = containers.flatMap(({ volumeMounts = [] }) => volumeMounts.filter(({ name }) => name === volumeName));
  if (mounts.length === 0) return;
  // Where containers see parts of the volume alone, the keys of those parts count.
  const isWhole = mounts.some(({ subPath = '', subPathExpr = '' }) => subPath === '' || subPathExpr !== '');
  const parts = isWhole ? undefined : mounts.map(({ subPath = '' }) => subPath);
  const use = (kind: FollowedKind, name: string | undefined, { items, optional }: KeySource): Use => {
    const requiredKeys = (items ?? []).map(({ key }) => key);
    return { kind, name, optional, keys: keysShown(items, parts), requiredKeys };
  };
  if (configMap) yield use('ConfigMap', configMap.name, configMap);
  if (secret) yield use('Secret', secret.secretName, secret);
  for (const source of projected?.sources ?? []) {
    if (source.configMap) yield use('ConfigMap', source.configMap.name, source.configMap);
    if (source.secret) yield use('Secret', source.secret.name, source.secret);
  }
}

function keysShown(
  items: readonly KeyToPath[] | undefined,
  parts: readonly string[] | undefined,
): readonly string[] | undefined {
  // A key without an item is a file in the first level.
  if (items === undefined) return parts?.map((part) => part.split('/')[0] ?? '');
  const isShown = ({ path }: KeyToPath): boolean =>
    parts === undefined || parts.some((part) => path === part || path.startsWith(`${part}/`));
  return items.filter(isShown).map(({ key }) => key);
}

export const rolloutAnnotation = 'mountlet.dev/rollout-on-change';
/** Many times what people list; each is read at every look. */
const listedMax = 64;
const words: Readonly<Record<string, FollowedKind>> = { configmap: 'ConfigMap', secret: 'Secret' };
const wanted = 'want true, false or a list such as configmap/a,secret/b,!secret/c';

/**
 * The objects to follow, undefined for none. A list without `!` names all of them, and also such as the template does not use: of
 * these every key counts. One of `!` alone leaves out what it names. A text says what is wrong with the annotation.
 */
export function followedObjects(
  annotation: string,
  template: PodTemplateSpec,
): readonly UsedObject[] | string | undefined {
  if (annotation === 'false') return undefined;
  const used = usedObjects(template);
  if (annotation === 'true') return used;
  const entries = annotation.split(',').map((entry) => entry.trim());
  if (entries.length > listedMax) return `${entries.length} objects are more than ${listedMax}`;
  const [named, without] = [new Map<string, UsedObject>(), new Set<string>()];
  for (const entry of entries) {
    const [, not, word = '', name = ''] = /^(!?)([^/]*)\/(.*)$/s.exec(entry) ?? [];
    const kind = Object.hasOwn(words, word) ? words[word] : undefined;
    if (kind === undefined) return `unknown word ${JSON.stringify(entry.slice(0, 100))}: ${wanted}`;
    const [problem] = dnsSubdomainProblems(name);
    if (problem !== undefined) return `${JSON.stringify(entry.slice(0, 100))} names no object: ${problem}`;
    const id = `${kind}/${name}`;
    if (not === '!') without.add(id);
    else named.set(id, { kind, name, keys: undefined, isRequired: false, requiredKeys: new Set() });
  }
  const isKept = ({ kind, name }: UsedObject): boolean => !without.has(`${kind}/${name}`);
  if (named.size === 0) return used.filter(isKept);
  for (const object of used) {
    const id = `${object.kind}/${object.name}`;
    if (named.has(id)) named.set(id, object);
  }
  return [...named.values()].filter(isKept);
}
