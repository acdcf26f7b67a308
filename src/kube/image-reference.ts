/**
 * The parts of an image's name: `registry:5000/team/app:1.2@sha256:…`. A short name means the default registry, and a name
 * that breaks the rules has no parts at all, exactly where the container world's common parser gives up.
 */
export interface ImageReference {
  readonly repository: string;
  readonly tag?: string;
  readonly digest?: string;
}

const defaultDomain = 'docker.io';
const repositoryLengthMax = 255;

const domainLabel = '(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])';
const host = String.raw`(?:${domainLabel}(?:\.${domainLabel})*|\[[a-fA-F0-9:]+\])`;
const component = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*';
const pattern = new RegExp(
  String.raw`^(${host}(?::[0-9]+)?/${component}(?:/${component})*)(?::(\w[\w.-]{0,127}))?(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?$`,
);
const digestHexLengths: Readonly<Record<string, number>> = { sha256: 64, sha384: 96, sha512: 128 };

/** Undefined for a text that names no image. */
export function parseImageReference(image: string): ImageReference | undefined {
  // Sixty-four hexadecimal digits are an image's identity and never its name.
  if (/^[a-f0-9]{64}$/.test(image)) return undefined;
  const [, repository, tag, digest] = pattern.exec(qualified(image)) ?? [];
  if (repository === undefined || repository.length > repositoryLengthMax) return undefined;
  if (digest !== undefined && !isDigest(digest)) return undefined;
  return { repository, ...(tag !== undefined && { tag }), ...(digest !== undefined && { digest }) };
}

/** An image without a tag moves like one tagged `latest`, and is asked for every time. */
export function defaultPullPolicy(image: string): 'Always' | 'IfNotPresent' {
  const reference = parseImageReference(image);
  if (reference === undefined) return 'IfNotPresent';
  const tag = reference.tag ?? (reference.digest === undefined ? 'latest' : '');
  return tag === 'latest' ? 'Always' : 'IfNotPresent';
}

function qualified(image: string): string {
  const slash = image.indexOf('/');
  const first = image.slice(0, Math.max(slash, 0));
  const isDomain = slash >= 0 && (/[.:]/.test(first) || first === 'localhost' || first !== first.toLowerCase());
  const domain = isDomain ? first.replace(/^index\.docker\.io$/, defaultDomain) : defaultDomain;
  const rest = isDomain ? image.slice(slash + 1) : image;
  return domain === defaultDomain && !rest.includes('/') ? `${domain}/library/${rest}` : `${domain}/${rest}`;
}

function isDigest(digest: string): boolean {
  const [algorithm = '', hex = ''] = digest.split(':');
  return digestHexLengths[algorithm] === hex.length && /^[a-f0-9]+$/.test(hex);
}
