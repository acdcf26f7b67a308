/** The ClusterTrustBundle: its shape and its rules. Its name must fit its signer, and it holds only certificates of authorities. */
import { X509Certificate } from 'node:crypto';
import { type FieldError, invalidField, tooLongField } from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import {
  immutableErrors,
  signerNameErrors,
  trustBundleNameProblems,
  validateObjectMeta,
  validateObjectMetaUpdate,
} from '../schema/metadata-validation.ts';
import { type FieldPath, type Of, described, object, required, string } from '../schema/schema.ts';

export const clusterTrustBundleShape = described(
  {
    text: 'Certificates of authorities that pods may trust.',
    fields: { spec: 'The certificates, and whose they are.' },
  },
  object({
    ...objectFields,
    spec: required(
      described(
        {
          text: 'Certificates, and whose they are.',
          fields: {
            signerName: 'The signer that issues certificates under these authorities. It cannot be changed.',
            trustBundle: 'The certificates as PEM blocks.',
          },
        },
        object({ signerName: string, trustBundle: required(string) }),
      ),
    ),
  }),
);
export interface ClusterTrustBundle extends Of<typeof clusterTrustBundleShape> {}

export const trustBundleKind = resourceKind<ClusterTrustBundle>({
  group: 'certificates.k8s.io',
  otherVersions: ['v1beta1', 'v1alpha1'],
  kind: 'ClusterTrustBundle',
  plural: 'clustertrustbundles',
  namespaced: false,
  shape: clusterTrustBundleShape,
  validate: validateClusterTrustBundle,
  validateUpdate: validateClusterTrustBundleUpdate,
  wire: {
    ClusterTrustBundle: '1 metadata ObjectMeta, 2 spec ClusterTrustBundleSpec',
    ClusterTrustBundleSpec: '1 signerName, 2 trustBundle!',
  },
});

const bundleBytesMax = 1024 * 1024;

function validateClusterTrustBundle(bundle: ClusterTrustBundle): FieldError[] {
  const { signerName = '', trustBundle } = bundle.spec;
  const here = ['spec'];
  const rules = { name: trustBundleNameProblems(signerName), scope: 'cluster' } as const;
  return [
    ...validateObjectMeta(bundle.metadata, rules, ['metadata']),
    ...(signerName === '' ? [] : signerNameErrors(signerName, [...here, 'signerName'])),
    ...certificateErrors(trustBundle, [...here, 'trustBundle']),
  ];
}

function validateClusterTrustBundleUpdate(bundle: ClusterTrustBundle, old: ClusterTrustBundle): FieldError[] {
  return [
    ...validateClusterTrustBundle(bundle),
    ...validateObjectMetaUpdate(bundle.metadata, old.metadata),
    ...immutableErrors(bundle.spec.signerName ?? '', old.spec.signerName ?? '', ['spec', 'signerName']),
  ];
}

function certificateErrors(text: string, path: FieldPath): FieldError[] {
  if (Buffer.byteLength(text) > bundleBytesMax) return [tooLongField(path, bundleBytesMax)];
  const refuse = (detail: string): FieldError => invalidField(path, '<value omitted>', detail);
  const errors: FieldError[] = [];
  const places = new Map<string, number[]>();
  for (const [index, block] of pemBlocks(text).entries()) {
    const problem = blockProblem(block);
    if (problem !== undefined) errors.push(refuse(`entry ${index} ${problem}`));
    else places.set(block.base64, [...(places.get(block.base64) ?? []), index]);
  }
  // A broken block would make these two complaints untrue.
  if (errors.length > 0) return errors;
  if (places.size === 0) return [refuse('at least one trust anchor must be provided')];
  return [...places.values()]
    .filter((indices) => indices.length > 1)
    .map((indices) => refuse(`duplicate trust anchor (indices [${indices.join(' ')}])`));
}

interface PemBlock {
  readonly type: string;
  readonly hasHeaders: boolean;
  readonly base64: string;
}

/** Text between the blocks is allowed, and so are blocks that do not close: they are text. */
function pemBlocks(text: string): PemBlock[] {
  const found = text.matchAll(/^-----BEGIN ([^\r\n]*?)-----[ \t\r]*\n((?:(?!-----)[^])*?)^-----END \1-----[ \t\r]*$/gm);
  return [...found].map(([, type = '', body = '']) => ({
    type,
    hasHeaders: /^[^\n]*:/.test(body),
    base64: body.replace(/\s/g, ''),
  }));
}

function blockProblem({ type, hasHeaders, base64 }: PemBlock): string | undefined {
  if (type !== 'CERTIFICATE') return `has bad block type: ${type}`;
  if (hasHeaders) return 'has PEM block headers';
  try {
    return new X509Certificate(Buffer.from(base64, 'base64')).ca ? undefined : 'does not have the CA bit set';
  } catch {
    return 'does not parse as X.509';
  }
}
