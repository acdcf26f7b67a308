/** Defaults of a pod's volumes, as the API server sets them when an object is decoded. */
import { defaultClaimSpec } from './default-objects.ts';
import { defaultPullPolicy } from './default-pull-policy.ts';
import type { DownwardApiFile, FieldReference, Volume, VolumeProjection } from '../objects/volume.ts';

/** Readable by everyone, writable by the owner. */
const defaultFileMode = 0o644;
const tokenLifetimeSeconds = 3600;

type SourceDefaults = { readonly [K in keyof Volume]?: (source: NonNullable<Volume[K]>) => Volume[K] };

const defaultsOf: SourceDefaults = {
  hostPath: (source) => ({ ...source, type: source.type ?? '' }),
  secret: withMode,
  configMap: withMode,
  downwardAPI: (source) => ({ ...withMode(source), ...(source.items && { items: source.items.map(defaultFile) }) }),
  projected: (source) => ({
    ...withMode(source),
    ...(source.sources && { sources: source.sources.map(defaultProjection) }),
  }),
  ephemeral: ({ volumeClaimTemplate: template, ...source }) =>
    template === undefined
      ? source
      : { ...source, volumeClaimTemplate: { ...template, spec: defaultClaimSpec(template.spec) } },
  image: (source) => ({
    ...source,
    pullPolicy: source.pullPolicy || defaultPullPolicy(source.reference ?? ''),
  }),
};

export function defaultVolume(volume: Volume): Volume {
  const { name, ...sources } = volume;
  const present = Object.entries(sources).filter(([, source]) => source !== undefined);
  if (present.length === 0) return { name, emptyDir: {} };
  const entries = present.map(([kind, source]): [string, unknown] => {
    const complete = defaultsOf[kind as keyof Volume] as ((source: unknown) => unknown) | undefined;
    return [kind, complete === undefined ? source : complete(source)];
  });
  return { name, ...Object.fromEntries(entries) };
}

export function defaultFieldReference(reference: FieldReference): FieldReference {
  return { ...reference, apiVersion: reference.apiVersion || 'v1' };
}

function withMode<S extends { readonly defaultMode?: number }>(source: S): S {
  return { ...source, defaultMode: source.defaultMode ?? defaultFileMode };
}

function defaultFile(file: DownwardApiFile): DownwardApiFile {
  return file.fieldRef === undefined ? file : { ...file, fieldRef: defaultFieldReference(file.fieldRef) };
}

function defaultProjection(projection: VolumeProjection): VolumeProjection {
  const { downwardAPI, serviceAccountToken: token } = projection;
  return {
    ...projection,
    ...(downwardAPI?.items && { downwardAPI: { ...downwardAPI, items: downwardAPI.items.map(defaultFile) } }),
    ...(token && {
      serviceAccountToken: { ...token, expirationSeconds: token.expirationSeconds ?? tokenLifetimeSeconds },
    }),
  };
}
