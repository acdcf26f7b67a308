/** Rendered pods as a List that jq and kubectl's printers understand: `-o json` and `-o yaml`. */
import { stringify } from 'yaml';
import type { RenderedContainer, RenderedMount, RenderedPod, RenderedVolume } from '../agent/render/rendered-pod.ts';
import { tagsOfBothReadings } from '../kube/manifests/yaml-documents.ts';

/** Stands where a value that came from a Secret would. */
const hidden = '***';

export interface SecretsShown {
  readonly showSecrets: boolean;
}

export function renderedList(pods: readonly RenderedPod[], shown: SecretsShown): object {
  return { apiVersion: 'v1', kind: 'List', metadata: {}, items: pods.map((pod) => item(pod, shown)) };
}

/** Escapes also the control characters that JSON may carry as they are: the reader may be a terminal. */
export function showJson(value: object): string {
  return JSON.stringify(value, undefined, 2).replace(
    /[\u007f-\u009f]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Old and new readers of YAML find the same in it: what any of them would take for a number or a boolean has quotes. */
export function showYaml(value: object): string {
  return stringify(value, { lineWidth: 0, version: '1.1', customTags: tagsOfBothReadings });
}

function item(pod: RenderedPod, shown: SecretsShown): object {
  const { namespace, name, uid } = pod;
  const containers = (list: readonly RenderedContainer[]): object[] => list.map((one) => container(one, shown));
  return {
    apiVersion: 'mountlet.dev/v1alpha1',
    kind: 'RenderedPod',
    metadata: { namespace, name, uid },
    namespace,
    name,
    uid,
    volumes: pod.volumes.map(volume),
    ...(pod.initContainers.length > 0 && { initContainers: containers(pod.initContainers) }),
    containers: containers(pod.containers),
    ...(pod.ephemeralContainers.length > 0 && { ephemeralContainers: containers(pod.ephemeralContainers) }),
    pullCredentials: pod.pullCredentials,
  };
}

function volume({ name, plugin, path, files }: RenderedVolume): object {
  return {
    name,
    plugin,
    path,
    files: files.map((file) => ({
      path: file.path,
      mode: showMode(file.mode),
      uid: file.uid,
      gid: file.gid,
      size: file.sizeBytes,
      sha256: file.sha256,
    })),
  };
}

function container({ name, env, mounts }: RenderedContainer, shown: SecretsShown): object {
  return {
    name,
    env: env.map((variable) => ({ name: variable.name, value: shownValue(variable, shown) })),
    mounts: mounts.map((one) => shownMount(one, shown)),
  };
}

export function shownValue(
  { value, secret }: { value: string; secret: boolean },
  { showSecrets }: SecretsShown,
): string {
  return secret && !showSecrets ? hidden : value;
}

/** The printable part of a mount; a subPath that a Secret's value went into is hidden, and with it the path it led to. */
export function shownMount(mount: RenderedMount, { showSecrets }: SecretsShown): Omit<RenderedMount, 'secretSubPath'> {
  const { secretSubPath, ...rest } = mount;
  return secretSubPath && !showSecrets ? { ...rest, hostPath: hidden, subPath: hidden } : rest;
}

/** `0644`, `02755`: octal with the leading zero that says so. */
export function showMode(mode: number): string {
  return `0${mode.toString(8).padStart(3, '0')}`;
}
