/**
 * Where things lie below the node's root directory; the kubelet's layout, so that its tools and ours find each other's
 * files. Only paths: nothing is read or made here. Every name that comes from an object is one path segment or is refused.
 *
 *   pods/<uid>/volumes/<plugin~name>/<volume>              a volume as the pod sees it
 *   pods/<uid>/volumeDevices/<plugin~name>/<volume>        a link to a raw block device
 *   pods/<uid>/volume-subpaths/<volume>/<container>/<n>    what a subPath mount is bound to
 *   pods/<uid>/volume-subpaths/<volume>/..live             the same for those that follow updates, which a kubelet has not
 *   pods/<uid>/plugins/<plugin~name>/<volume>/ready        an emptyDir that was set up completely
 *   pods/<uid>/containers/<container>, pods/<uid>/etc-hosts
 *   plugins/<plugin/name>/mounts/<volume>                  a device mounted once for all pods
 *   plugins/<plugin~name>/volumeDevices/<volume>/<uid>     a raw device, bind mounted for one pod
 */
import { posix } from 'node:path';
import { OperatingError } from '../../base/errors.ts';
import { goQuote } from './go-text.ts';

const emptyDirPlugin = 'kubernetes.io/empty-dir';
const segmentBytesMax = 255;

/** The one part that may need cleaning is the root: what is added to it below are plain names, which joining would not change. */
export function podsDirectory(root: string): string {
  return posix.join(root, 'pods');
}

export function podDirectory(root: string, podUid: string): string {
  return `${podsDirectory(root)}/${pathSegment('a pod UID', podUid)}`;
}

/** The logs of a pod's containers, in a directory that may be elsewhere than the root. */
export function podLogDirectory(
  logRoot: string,
  { namespace, name, uid }: { readonly namespace: string; readonly name: string; readonly uid: string },
): string {
  return `${logRoot}/${pathSegment('a pod', `${namespace}_${name}_${uid}`)}`;
}

export function volumesDirectory(root: string, podUid: string): string {
  return `${podDirectory(root, podUid)}/volumes`;
}

export function volumeDirectory(root: string, podUid: string, pluginName: string, volumeName: string): string {
  return `${volumesDirectory(root, podUid)}/${pluginSegment(pluginName)}/${volumeSegment(volumeName)}`;
}

export function podPluginsDirectory(root: string, podUid: string): string {
  return `${podDirectory(root, podUid)}/plugins`;
}

export function podPluginDirectory(root: string, podUid: string, pluginName: string): string {
  return `${podPluginsDirectory(root, podUid)}/${pluginSegment(pluginName)}`;
}

/** `volumeName` is the emptyDir's own name, or `wrappedVolumeName(…)` for the volume kinds that wrap one. */
export function readyMarker(root: string, podUid: string, volumeName: string): string {
  return `${podPluginDirectory(root, podUid, emptyDirPlugin)}/${volumeSegment(volumeName)}/ready`;
}

/** The emptyDir inside a configMap, secret, downwardAPI or projected volume. No volume of a pod can have this name. */
export function wrappedVolumeName(volumeName: string): string {
  return `wrapped_${volumeName}`;
}

export function subPathsDirectory(root: string, podUid: string): string {
  return posix.join(podDirectory(root, podUid), 'volume-subpaths');
}

export function deviceDirectory(root: string, podUid: string, pluginName: string, volumeName: string): string {
  const devices = posix.join(podDirectory(root, podUid), 'volumeDevices');
  return posix.join(devices, pluginSegment(pluginName), volumeSegment(volumeName));
}

export function containerDirectory(root: string, podUid: string, containerName: string): string {
  return posix.join(podDirectory(root, podUid), 'containers', pathSegment('a container name', containerName));
}

export function etcHostsFile(root: string, podUid: string): string {
  return posix.join(podDirectory(root, podUid), 'etc-hosts');
}

/** Data of a plugin that belongs to no pod. Here, and only here, the plugin's name keeps its slash. */
export function pluginDirectory(root: string, pluginName: string): string {
  const segments = pluginName.split('/').map((part) => pathSegment('a plugin name', part));
  return posix.join(root, 'plugins', ...segments);
}

export function globalMountDirectory(root: string, pluginName: string, volumeName: string): string {
  return posix.join(pluginDirectory(root, pluginName), 'mounts', volumeSegment(volumeName));
}

/** Each pod's bind mount of a raw device lies in it. Local volumes have it where the kubelet has it: under `~`. */
export function globalMapDirectory(root: string, pluginName: string, volumeName: string): string {
  return posix.join(root, 'plugins', pluginSegment(pluginName), 'volumeDevices', volumeSegment(volumeName));
}

function pluginSegment(pluginName: string): string {
  return pathSegment('a plugin name', escapePluginName(pluginName));
}

function volumeSegment(volumeName: string): string {
  return pathSegment('a volume name', volumeName);
}

/** A name from an object as one path segment; throws for one that could lead elsewhere. */
export function pathSegment(what: string, name: string): string {
  const escapes = name === '' || name === '.' || name === '..' || name.includes('/') || name.includes('\0');
  if (escapes || Buffer.byteLength(name) > segmentBytesMax)
    throw new OperatingError(
      'UnsafeName',
      `Cannot use ${goQuote(name)} as ${what}: it must be a plain file name without "/", other than "." and ".."`,
    );
  return name;
}

// Names by which the node knows volumes. A volume of one pod is named after that pod; a volume that pods share, because it
// is attached to the node or mounted once for all, is named after its storage. A restart must find the same names again.

/** A pod is known by its UID alone: two pods of one name may follow each other. */
type UniquePodName = string;

/** `kubernetes.io/configmap` as one path segment: `kubernetes.io~configmap`. */
export function escapePluginName(name: string): string {
  return name.replaceAll('/', '~');
}

export function unescapePluginName(name: string): string {
  return name.replaceAll('~', '/');
}

/** For volumes that cannot be attached: never shared between pods. */
export function uniqueVolumeNameOfPod(pluginName: string, podUid: UniquePodName, specName: string): string {
  return `${pluginName}/${podUid}-${specName}`;
}

/** For attachable and device-mountable volumes: shared by all pods that use the same storage. */
export function uniqueVolumeName(pluginName: string, storageName: string): string {
  return `${pluginName}/${storageName}`;
}

interface UniqueVolumeParts {
  readonly pluginName: string;
  readonly volumeName: string;
}

/** Plugin names have exactly one slash, so the second slash is where the volume's own name begins. */
export function splitUniqueVolumeName(name: string): UniqueVolumeParts {
  const second = name.indexOf('/', name.indexOf('/') + 1);
  if (second < 0 || !name.slice(0, second).includes('/')) {
    throw new OperatingError(
      'InvalidUniqueName',
      `cannot split volume unique name ${name} to plugin/volume components`,
    );
  }
  return { pluginName: name.slice(0, second), volumeName: name.slice(second + 1) };
}
