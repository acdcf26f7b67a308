/** Image references as the kubelet reads them: `nginx` is `docker.io/library/nginx:latest`. */
import { MountletError } from '../../base/errors.ts';
import { goQuote } from './go-text.ts';

interface ImageReference {
  /** Registry and path, `docker.io/library/nginx`. */
  readonly repository: string;
  /** `latest` where neither a tag nor a digest was given, empty where only a digest was. */
  readonly tag: string;
  readonly digest: string;
}

export class ImageReferenceError extends MountletError {
  readonly reason = 'InvalidImageName';

  constructor(image: string, problem: string) {
    super(`couldn't parse image name ${goQuote(image)}: ${problem}`);
  }
}

const hub = 'docker.io';
const legacyHub = 'index.docker.io';
const officialPath = 'library/';
const pathLengthMax = 255;
const digestLengths: Readonly<Record<string, number>> = { sha256: 64, sha384: 96, sha512: 128 };

const domainPart = '(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])';
const domain = String.raw`(?:${domainPart}(?:\.${domainPart})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`;
const pathPart = '[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*';
const tag = String.raw`[\w][\w.-]{0,127}`;
const digest = '[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}';
const referencePattern = new RegExp(`^(${domain})/(${pathPart}(?:/${pathPart})*)(?::(${tag}))?(?:@(${digest}))?$`);

export function parseImageReference(image: string): ImageReference {
  const fail = (problem: string): ImageReferenceError => new ImageReferenceError(image, problem);
  if (/^[a-f0-9]{64}$/.test(image)) {
    throw fail(`invalid repository name (${image}), cannot specify 64-byte hexadecimal strings`);
  }
  const { registry, rest } = splitRegistry(image);
  const [name = ''] = rest.split(':');
  if (name.toLowerCase() !== name) {
    throw fail(`invalid reference format: repository name (${name}) must be lowercase`);
  }
  const full = `${registry}/${rest}`;
  const [, host = '', path = '', foundTag = '', foundDigest = ''] = referencePattern.exec(full) ?? [];
  if (host === '') {
    const capitals = referencePattern.test(full.toLowerCase());
    throw fail(capitals ? 'repository name must be lowercase' : 'invalid reference format');
  }
  if (path.length > pathLengthMax) throw fail(`repository name must not be more than ${pathLengthMax} characters`);
  const problem = foundDigest === '' ? undefined : digestProblem(foundDigest);
  if (problem !== undefined) throw fail(problem);
  const defaultTag = foundDigest === '' ? 'latest' : '';
  return { repository: `${host}/${path}`, tag: foundTag === '' ? defaultTag : foundTag, digest: foundDigest };
}

/** The first part is a registry if it looks like a host; else the image is on Docker Hub. */
function splitRegistry(image: string): { readonly registry: string; readonly rest: string } {
  const slash = image.indexOf('/');
  if (slash < 0) return { registry: hub, rest: officialPath + image };
  const first = image.slice(0, slash);
  const isHost = first === 'localhost' || /[.:]/.test(first) || first.toLowerCase() !== first;
  const registry = first === legacyHub || !isHost ? hub : first;
  const rest = isHost ? image.slice(slash + 1) : image;
  return { registry, rest: registry === hub && !rest.includes('/') ? officialPath + rest : rest };
}

function digestProblem(text: string): string | undefined {
  const [algorithm = '', encoded = ''] = text.split(':');
  const length = Object.hasOwn(digestLengths, algorithm) ? digestLengths[algorithm] : undefined;
  if (length === undefined) {
    const wellFormed = /^[a-z0-9]+(?:[.+_-][a-z0-9]+)*$/.test(algorithm);
    return wellFormed ? 'unsupported digest algorithm' : 'invalid checksum digest format';
  }
  if (encoded.length !== length) return 'invalid checksum digest length';
  return /^[a-f0-9]+$/.test(encoded) ? undefined : 'invalid checksum digest format';
}

/**
 * The default pull policy: an image without a tag moves like `latest` and is asked for every time. A text that names no image
 * gets the quieter default: pulling it will say what is wrong.
 */
export function defaultPullPolicy(image: string): 'Always' | 'IfNotPresent' {
  try {
    return parseImageReference(image).tag === 'latest' ? 'Always' : 'IfNotPresent';
  } catch (error) {
    if (error instanceof ImageReferenceError) return 'IfNotPresent';
    throw error;
  }
}
