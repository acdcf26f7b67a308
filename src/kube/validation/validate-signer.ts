/** Names of certificate signers, and of the trust bundles that belong to them. */
import { invalidField, invalidFields, requiredField, tooLongField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { goQuote } from '../values/go-quote.ts';
import { dnsLabelProblems, dnsSubdomainProblems } from '../values/names.ts';
import type { Problems } from '../values/names.ts';
import type { FieldPath } from '../objects/schema.ts';

const domainBytesMax = 253;
/** A domain, then a namespace and a name with a dot between them. */
const signerBytesMax = domainBytesMax + 1 + 63 + 1 + 253;

export function isKubernetesSigner(signerName: string): boolean {
  const [domain = ''] = signerName.split('/');
  return domain === 'kubernetes.io' || domain.endsWith('.kubernetes.io');
}

export function signerNameErrors(signerName: string, path: FieldPath): FieldError[] {
  if (signerName === '') return [requiredField(path)];
  const [domain = '', name = '', ...more] = signerName.split('/');
  if (!signerName.includes('/') || more.length > 0) {
    const detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
    return [invalidField(path, signerName, detail)];
  }
  const errors: FieldError[] = [];
  if (Buffer.byteLength(domain) > domainBytesMax) errors.push(tooLongField(path, domainBytesMax));
  errors.push(...partErrors(domain, dnsLabelProblems, path));
  if (!domain.includes('.')) {
    errors.push(invalidField(path, domain, 'should be a domain with at least two segments separated by dots'));
  }
  errors.push(...partErrors(name, dnsSubdomainProblems, path));
  if (Buffer.byteLength(signerName) > signerBytesMax) errors.push(tooLongField(path, signerBytesMax));
  return errors;
}

/** Only the first bad part is told: the next ones would say the same. */
function partErrors(text: string, rule: (part: string) => Problems, path: FieldPath): FieldError[] {
  for (const part of text.split('.')) {
    const problems = rule(part);
    if (problems.length === 0) continue;
    return invalidFields(
      path,
      text,
      problems.map((problem) => `validating label ${goQuote(part)}: ${problem}`),
    );
  }
  return [];
}

/** A bundle of a signer carries the signer's name in its own: `example.com:signer:name`. */
export function trustBundleNameProblems(signerName: string): (name: string) => Problems {
  return (name) => {
    if (signerName === '') {
      if (name.includes(':')) return ['ClusterTrustBundle without signer name must not have ":" in its name'];
      return dnsSubdomainProblems(name);
    }
    const prefix = `${signerName.replaceAll('/', ':')}:`;
    if (!name.startsWith(prefix)) {
      return [`ClusterTrustBundle for signerName ${signerName} must be named with prefix ${prefix}`];
    }
    return dnsSubdomainProblems(name.slice(prefix.length));
  };
}

/** The signer that a bundle's name speaks of; empty where it speaks of none. */
export function signerInBundleName(name: string): string {
  const end = name.lastIndexOf(':');
  return end < 0 ? '' : name.slice(0, end).replaceAll(':', '/');
}
