/**
 * Manifests in, checked objects out: every document of every file is read, decoded, defaulted and validated before
 * anything is done with any of them, and each problem says file, line, column and field. Reads text, not files.
 */
import { MountletError } from '../../base/errors.ts';
import { type Pod, podTemplateSpec } from '../kinds/pod/pod.ts';
import { claimKind } from '../kinds/storage/persistent-volume-claim.ts';
import { claimingSpec, storageOfOrdinal } from '../references/claim-templates.ts';
import { isRecord } from '../schema/equality.ts';
import { type FieldError, forbiddenField, placeOf, showPath } from '../schema/field-errors.ts';
import { type KubeObject, type ResourceKind, apiVersionsOf } from '../schema/kind.ts';
import { objectMeta } from '../schema/meta.ts';
import { type FieldPath, type ShapeProblem, decode } from '../schema/schema.ts';
import { type ManifestKind, manifestKinds, podManifest, uidOf, withGeneratedName } from './manifest-kinds.ts';
import { type WorkloadKind, podOfWorkload, workloadKinds } from './workload.ts';
import { type Position, parseYamlDocuments } from './yaml-documents.ts';

export interface ManifestFile {
  /** As the user named it: messages repeat it. */
  readonly name: string;
  readonly text: string;
}

export interface ManifestProblem extends Position {
  readonly file: string;
  readonly message: string;
}

export class ManifestError extends MountletError {
  readonly reason = 'InvalidManifest';
  readonly problems: readonly ManifestProblem[];

  constructor(problems: readonly ManifestProblem[]) {
    super(problems.map(({ file, line, column, message }) => `${file}:${line}:${column}: ${message}`).join('\n'));
    this.problems = problems;
  }
}

/** The objects of all files. A later document replaces an earlier one of the same kind and name, as applying both would. */
export class Manifests {
  readonly #objects = new Map<string, Map<string, unknown>>();
  /** Kinds of documents that put nothing on a node, or that nobody has. */
  readonly passedOver = new Set<string>();

  get<T extends KubeObject>(kind: ResourceKind<T>, namespace: string, name: string): T | undefined {
    return this.#table(kind).get(`${kind.namespaced ? namespace : ''}/${name}`);
  }

  all<T extends KubeObject>(kind: ResourceKind<T>): readonly T[] {
    return [...this.#table(kind).values()];
  }

  add<T extends KubeObject>(kind: ResourceKind<T>, object: T): void {
    const { namespace = '', name } = object.metadata;
    const table = this.#table(kind);
    // Deleted first, so that the order is that of the documents that count.
    table.delete(`${namespace}/${name}`);
    table.set(`${namespace}/${name}`, object);
  }

  /** Of objects that a controller makes unless they exist. */
  addUnlessPresent<T extends KubeObject>(kind: ResourceKind<T>, object: T): void {
    const { namespace = '', name } = object.metadata;
    if (this.get(kind, namespace, name) === undefined) this.add(kind, object);
  }

  #table<T extends KubeObject>(kind: ResourceKind<T>): Map<string, T> {
    let table = this.#objects.get(kind.kind);
    if (table === undefined) this.#objects.set(kind.kind, (table = new Map()));
    return table as Map<string, T>;
  }
}

/**
 * Objects that name no namespace get `namespace`; `pods` completes and checks pods where they are not those of an API
 * server. Throws a ManifestError that lists every problem of every file.
 */
export function readManifests(
  files: readonly ManifestFile[],
  namespace: string,
  pods: ManifestKind<Pod> = podManifest,
): Manifests {
  const manifests = new Manifests();
  const problems: ManifestProblem[] = [];
  for (const { name: file, text } of files) {
    for (const document of parseYamlDocuments(text)) {
      for (const { position, message, repeatedKey } of document.problems) {
        if (repeatedKey !== undefined && isPassedOver(document.value)) continue;
        problems.push({ file, ...position, message });
      }
      if (document.value === null || document.value === undefined) continue;
      const report: Report = (path, message) => problems.push({ file, ...document.locate(path), message });
      readObject({ manifests, namespace, pods, report }, document.value, []);
    }
  }
  if (problems.length > 0) throw new ManifestError(withoutRepetition(problems));
  return manifests;
}

/** One mistake may break several rules that say the same. */
function withoutRepetition(problems: readonly ManifestProblem[]): readonly ManifestProblem[] {
  const seen = new Map(problems.map((problem) => [JSON.stringify(problem), problem]));
  return [...seen.values()];
}

interface ObjectType {
  readonly apiVersion?: unknown;
  readonly kind?: unknown;
}
type Report = (path: FieldPath, message: string) => void;
interface Reading {
  readonly manifests: Manifests;
  readonly namespace: string;
  readonly pods: ManifestKind<Pod>;
  readonly report: Report;
}

function readObject(reading: Reading, json: unknown, path: FieldPath, ofList: ObjectType = {}): void {
  if (!isRecord(json)) return reading.report(path, 'expected a Kubernetes object (a map with apiVersion and kind)');
  // Items of a PodList need not say that they are Pods.
  const { apiVersion = ofList.apiVersion, kind = ofList.kind } = json;
  for (const [field, value] of Object.entries({ apiVersion, kind })) {
    if (typeof value === 'string' && value !== '') continue;
    const place = [...path, field];
    return reading.report(
      place,
      `${showPath(place)}: Required value: every Kubernetes object has an apiVersion and a kind`,
    );
  }
  if (Array.isArray(json['items']) && String(kind).endsWith('List')) {
    const item = kind === 'List' ? {} : { apiVersion, kind: String(kind).slice(0, -'List'.length) };
    return json['items'].forEach((one, index) => readObject(reading, one, [...path, 'items', index], item));
  }
  const known = kindsNamed(String(kind));
  const match = known.find((one) => one.kind === kind && versionsOf(one).includes(String(apiVersion)));
  if (match === undefined) {
    const [expected] = known;
    if (expected === undefined || isForeign(expected, String(apiVersion))) {
      reading.manifests.passedOver.add(String(kind));
      return;
    }
    const [version = ''] = versionsOf(expected);
    const advice = expected.kind === kind ? version : `${expected.kind} of ${version}`;
    return reading.report(
      [...path, expected.kind === kind ? 'apiVersion' : 'kind'],
      `no matches for kind "${String(kind)}" in version "${String(apiVersion)}": use ${advice}`,
    );
  }
  if ('template' in match) readWorkload(reading, match, json, path);
  else if (match === podManifest) readPlain(reading, reading.pods, json, path);
  else readPlain(reading, match, json, path);
}

function kindsNamed(kind: string): readonly (ManifestKind | WorkloadKind)[] {
  return [...manifestKinds, ...workloadKinds].filter((one) => one.kind.toLowerCase() === kind.toLowerCase());
}

/** Kinds that put nothing on a node (Ingress, Role, …) are not ours to judge. */
function isPassedOver(json: unknown): boolean {
  if (!isRecord(json) || typeof json['kind'] !== 'string' || Array.isArray(json['items'])) return false;
  const [expected] = kindsNamed(json['kind']);
  return expected === undefined || isForeign(expected, String(json['apiVersion']));
}

/**
 * `serving.knative.dev/v1` has a Service of its own, which is none of ours; `v2` of our own group is a mistake. So is
 * the group that workloads were in before they were in `apps`.
 */
function isForeign(expected: ManifestKind | WorkloadKind, apiVersion: string): boolean {
  const [version = ''] = versionsOf(expected);
  const group = groupOf(apiVersion);
  return group !== groupOf(version) && group !== 'extensions';
}

function groupOf(apiVersion: string): string {
  return apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
}

function versionsOf(kind: ManifestKind | WorkloadKind): readonly string[] {
  return 'template' in kind ? kind.apiVersions : apiVersionsOf(kind);
}

function readPlain<T extends KubeObject>(
  reading: Reading,
  kind: ManifestKind<T>,
  json: Record<string, unknown>,
  path: FieldPath,
): void {
  const { value, problems } = decode(kind.shape, json, path);
  const who = `${kind.kind} "${nameIn(json)}"`;
  if (reportShape(reading.report, who, problems)) return;
  const object = kind.complete(inNamespace(value, kind.namespaced ? reading.namespace : undefined));
  const report: Report = (place, message) => {
    const inside = place.slice(path.length);
    reading.report([...path, ...(kind.writtenAt?.(inside, json) ?? inside)], message);
  };
  if (reportFields(report, who, kind.validate(object), path)) return;
  reading.manifests.add(kind, object);
}

function readWorkload(reading: Reading, kind: WorkloadKind, json: Record<string, unknown>, path: FieldPath): void {
  const who = `${kind.kind} "${nameIn(json)}"`;
  const metadata = decode(objectMeta, json['metadata'], [...path, 'metadata']);
  const template = decode(podTemplateSpec, valueAt(json, kind.template), [...path, ...kind.template]);
  const claiming = decode(claimingSpec, kind.isNumbered ? claimingFields(json['spec']) : {}, [...path, 'spec']);
  const problems = [...metadata.problems, ...template.problems, ...claiming.problems];
  if (reportShape(reading.report, who, problems)) return;
  const named = withGeneratedName(metadata.value, metadata.value.namespace || reading.namespace);
  const ordinal = claiming.value.ordinals?.start ?? 0;
  const pod = inNamespace(podOfWorkload(kind, named, template.value, ordinal), reading.namespace);
  const { namespace = '' } = pod.metadata;
  const uid = named.uid || uidOf(namespace, named.name);
  const set = { metadata: { name: named.name, namespace, uid }, spec: claiming.value };
  const { claims, volumes } = storageOfOrdinal(set, { ordinal, volumes: pod.spec.volumes });
  const spec = claims.length === 0 ? pod.spec : { ...pod.spec, volumes };
  const complete: Pod = reading.pods.complete({ ...pod, spec });
  const made = claims.map((claim) => claimKind.complete(claim));
  const errors = [
    ...[...reading.pods.validate(complete), ...templateErrors(pod)].map((error) => atTemplate(error, kind)),
    ...made.flatMap((claim, index) =>
      claimKind.validate(claim).map((error) => below(['spec', 'volumeClaimTemplates', index], error)),
    ),
  ];
  if (reportFields(reading.report, who, errors, path)) return;
  reading.manifests.add(reading.pods, complete);
  for (const claim of made) reading.manifests.addUnlessPresent(claimKind, claim);
}

/** The rest of a StatefulSet's spec is left to its controller. */
function claimingFields(spec: unknown): Record<string, unknown> {
  if (!isRecord(spec)) return {};
  return Object.fromEntries(Object.keys(claimingSpec.fields ?? {}).map((field) => [field, spec[field]]));
}

function templateErrors({ spec }: Pod): readonly FieldError[] {
  if ((spec.ephemeralContainers ?? []).length === 0) return [];
  return [forbiddenField(['spec', 'ephemeralContainers'], 'ephemeral containers not allowed in pod template')];
}

/** The pod's own name stands in the workload; everything else of it stands in the template. */
function atTemplate(error: FieldError, { template }: WorkloadKind): FieldError {
  const [first, second] = error.path;
  if (first === 'metadata' && (second === 'name' || second === 'namespace')) return error;
  return below(template, error);
}

function below(place: FieldPath, error: FieldError): FieldError {
  const at = [...place, ...placeOf(error)];
  return { ...error, path: [...place, ...error.path], at, message: `${showPath(place)}.${error.message}` };
}

function reportShape(report: Report, who: string, problems: readonly ShapeProblem[]): boolean {
  for (const { path, message } of problems) report(placeOf({ path }), `${who}: ${showPath(path)}: ${message}`);
  return problems.length > 0;
}

function reportFields(report: Report, who: string, errors: readonly FieldError[], path: FieldPath): boolean {
  for (const error of errors) report([...path, ...placeOf(error)], `${who} is invalid: ${error.message}`);
  return errors.length > 0;
}

function inNamespace<T extends KubeObject>(object: T, namespace: string | undefined): T {
  const { namespace: given, ...metadata } = object.metadata;
  if (namespace === undefined) return { ...object, metadata };
  return { ...object, metadata: { ...metadata, namespace: given === undefined || given === '' ? namespace : given } };
}

function nameIn(json: Record<string, unknown>): string {
  const metadata = json['metadata'];
  const name = isRecord(metadata) ? (metadata['name'] ?? metadata['generateName']) : undefined;
  return typeof name === 'string' ? name : '';
}

function valueAt(json: unknown, path: FieldPath): unknown {
  return path.reduce((value, part) => (isRecord(value) ? value[String(part)] : undefined), json);
}
