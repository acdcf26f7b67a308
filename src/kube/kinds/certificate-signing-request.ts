/** CertificateSigningRequests: their shape, their rules, and what their conditions say. */
import { X509Certificate } from 'node:crypto';
import { messageOf } from '../../base/errors.ts';
import {
  type FieldError,
  duplicateField,
  forbiddenField,
  invalidField,
  requiredField,
  unsupportedText,
} from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import { signerNameErrors, validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import {
  type Of,
  atomic,
  bytes,
  described,
  int32,
  list,
  map,
  object,
  required,
  string,
  time,
} from '../schema/schema.ts';
import { type CertificateRequest, readCertificateRequest } from '../values/certificate-request.ts';

const conditionShape = described(
  {
    text: 'What somebody decided about the request.',
    fields: {
      type: 'Approved, Denied, Failed, or a word of a signer.',
      status: 'True, False or Unknown; the first three are True where they are there at all.',
      reason: 'One word, for programs.',
      message: 'Why, for people.',
      lastUpdateTime: 'When it was last written.',
      lastTransitionTime: 'When the status became what it is.',
    },
  },
  object({
    type: required(string),
    status: required(string),
    reason: string,
    message: string,
    lastUpdateTime: time,
    lastTransitionTime: time,
  }),
);

export const certificateSigningRequestShape = described(
  {
    text: 'A request for a certificate: somebody approves it, and then a signer signs it.',
    fields: {
      spec: 'What is asked for, and who asks. It cannot be changed.',
      status: 'What was decided, and the certificate.',
    },
  },
  object({
    ...objectFields,
    spec: required(
      described(
        {
          text: 'What is asked for, and who asks.',
          fields: {
            request: 'The request, PKCS#10 in PEM, in base64.',
            signerName: 'Who is to sign: kubernetes.io/kubelet-serving.',
            expirationSeconds: 'How long the certificate should be good for, at least 600; the signer decides.',
            usages: 'What the key may be used for.',
            username: 'Who asks. The server sets it.',
            uid: 'The uid of who asks. The server sets it.',
            groups: 'The groups of who asks. The server sets them.',
            extra: 'What else is known of who asks. The server sets it.',
          },
        },
        object({
          request: required(bytes),
          signerName: required(string),
          expirationSeconds: int32,
          usages: atomic(list(string)),
          username: string,
          uid: string,
          groups: atomic(list(string)),
          extra: map(list(string)),
        }),
      ),
    ),
    status: described(
      {
        text: 'What was decided, and the certificate.',
        fields: {
          conditions: 'What was decided.',
          certificate: 'The certificate and those that signed it, in PEM, in base64.',
        },
      },
      object({ conditions: list(conditionShape, 'type'), certificate: bytes }),
    ),
  }),
);
export interface CertificateSigningRequest extends Of<typeof certificateSigningRequestShape> {}
export type RequestCondition = NonNullable<NonNullable<CertificateSigningRequest['status']>['conditions']>[number];

export const certificateSigningRequestKind = resourceKind<CertificateSigningRequest>({
  group: 'certificates.k8s.io',
  kind: 'CertificateSigningRequest',
  plural: 'certificatesigningrequests',
  shortNames: ['csr'],
  namespaced: false,
  shape: certificateSigningRequestShape,
  validate: (request) => [
    ...validateObjectMeta(request.metadata, { name: () => [], scope: 'cluster' }, ['metadata']),
    ...contentErrors(request),
  ],
  validateUpdate: (request, old) => validateRequestUpdate(request, old, {}),
  wire: {
    CertificateSigningRequest: `
      1 metadata ObjectMeta, 2 spec CertificateSigningRequestSpec, 3 status CertificateSigningRequestStatus`,
    CertificateSigningRequestSpec: `
      1 request! bytes, 7 signerName, 8 expirationSeconds? int, 5 usages [string], 2 username, 3 uid, 4 groups [string],
      6 extra {Strings}`,
    CertificateSigningRequestStatus: '1 conditions [CertificateSigningRequestCondition], 2 certificate? bytes',
    CertificateSigningRequestCondition: `
      1 type!, 6 status!, 2 reason, 3 message, 4 lastUpdateTime Time, 5 lastTransitionTime Time`,
  },
});

/** Signers of Kubernetes' own. */
export const signers = {
  client: 'kubernetes.io/kube-apiserver-client',
  kubeletClient: 'kubernetes.io/kube-apiserver-client-kubelet',
  kubeletServing: 'kubernetes.io/kubelet-serving',
} as const;
const legacySigner = 'kubernetes.io/legacy-unknown';

const usages = [
  'any',
  'cert sign',
  'client auth',
  'code signing',
  'content commitment',
  'crl sign',
  'data encipherment',
  'decipher only',
  'digital signature',
  'email protection',
  'encipher only',
  'ipsec end system',
  'ipsec tunnel',
  'ipsec user',
  'key agreement',
  'key encipherment',
  'microsoft sgc',
  'netscape sgc',
  'ocsp signing',
  's/mime',
  'server auth',
  'signing',
  'timestamping',
];

const secondsMin = 600;
/** Of these there is no other status than True, and none of them goes away. */
const finalTypes = ['Approved', 'Denied', 'Failed'];

/** The request inside. Throws `BadCertificateRequest`. */
export function requestIn({ spec }: CertificateSigningRequest): CertificateRequest {
  return readCertificateRequest(Buffer.from(spec.request, 'base64').toString('latin1'));
}

export function hasCondition({ status }: CertificateSigningRequest, type: string): boolean {
  return (status?.conditions ?? []).some((one) => one.type === type);
}

function contentErrors(request: CertificateSigningRequest, wasLegacy = false): FieldError[] {
  const { spec, status } = request;
  const { signerName, expirationSeconds, usages: asked = [] } = spec;
  const errors: FieldError[] = [];
  try {
    requestIn(request);
  } catch (error) {
    errors.push(invalidField(['spec', 'request'], '<value omitted>', messageOf(error)));
  }
  if (asked.length === 0) errors.push(requiredField(['spec', 'usages']));
  for (const [index, usage] of asked.entries()) {
    if (!usages.includes(usage)) errors.push(unsupportedText(['spec', 'usages', index], usage, usages));
    else if (asked.indexOf(usage) < index) errors.push(duplicateField(['spec', 'usages', index], usage));
  }
  if (signerName === legacySigner && !wasLegacy) {
    const detail = 'the legacy signerName is not allowed via this API version';
    errors.push(invalidField(['spec', 'signerName'], signerName, detail));
  } else errors.push(...signerNameErrors(signerName, ['spec', 'signerName']));
  if (expirationSeconds !== undefined && expirationSeconds < secondsMin) {
    const detail = 'may not specify a duration less than 600 seconds (10 minutes)';
    errors.push(invalidField(['spec', 'expirationSeconds'], expirationSeconds, detail));
  }
  return [...errors, ...conditionErrors(status?.conditions ?? []), ...certificateErrors(status?.certificate ?? '')];
}

function conditionErrors(conditions: readonly RequestCondition[]): FieldError[] {
  const here = ['status', 'conditions'];
  const errors: FieldError[] = [];
  const seen = new Set<string>();
  for (const [index, { type, status }] of conditions.entries()) {
    const allowed = finalTypes.includes(type) ? ['True'] : ['False', 'True', 'Unknown'];
    if (type === '') errors.push(requiredField([...here, index, 'type']));
    if (status === '') errors.push(requiredField([...here, index, 'status']));
    else if (!allowed.includes(status)) errors.push(unsupportedText([...here, index, 'status'], status, allowed));
    const opposite = { Approved: 'Denied', Denied: 'Approved' }[type];
    if (opposite !== undefined && seen.has(opposite)) {
      errors.push(invalidField(here, type, 'Approved and Denied conditions are mutually exclusive'));
    }
    if (seen.has(type)) errors.push(duplicateField([...here, index, 'type'], type));
    seen.add(type);
  }
  return errors;
}

const blocks = /^-----BEGIN ([^\r\n]*?)-----[ \t\r]*\n([^-]*?)^-----END \1-----[ \t\r]*$/gm;

function certificateErrors(base64: string): FieldError[] {
  if (base64 === '') return [];
  const problem = certificateProblem(Buffer.from(base64, 'base64').toString('latin1'));
  return problem === undefined ? [] : [invalidField(['status', 'certificate'], '<certificate data>', problem)];
}

function certificateProblem(pem: string): string | undefined {
  const found = [...pem.matchAll(blocks)];
  if (found.length === 0) return 'must contain at least one CERTIFICATE PEM block';
  for (const [, type = '', body = ''] of found) {
    if (type !== 'CERTIFICATE') return `only CERTIFICATE PEM blocks are allowed, found "${type}"`;
    if (/^[^\n]*:/.test(body)) return 'no PEM block headers are permitted';
    try {
      void new X509Certificate(Buffer.from(body, 'base64'));
    } catch {
      return 'x509: malformed certificate';
    }
  }
  return undefined;
}

/** What the subresource may change besides metadata. */
interface Allowed {
  readonly approval?: boolean;
  readonly certificate?: boolean;
}

export function validateRequestUpdate(
  request: CertificateSigningRequest,
  old: CertificateSigningRequest,
  allowed: Allowed,
): FieldError[] {
  const [conditions, before] = [request, old].map(({ status }) => status?.conditions ?? []) as [
    readonly RequestCondition[],
    readonly RequestCondition[],
  ];
  const refuse = (type: string, what: string): FieldError =>
    forbiddenField(['status', 'conditions'], `updates may not ${what} a condition of type "${type}"`);
  const errors = contentErrors(request, old.spec.signerName === legacySigner);
  for (const type of finalTypes) {
    const [now, then] = [conditions, before].map((all) => all.filter((one) => one.type === type));
    if (now === undefined || then === undefined) continue;
    if (now.length < then.length) errors.push(refuse(type, 'remove'));
    else if (type === 'Failed' || allowed.approval === true) continue;
    else if (now.length > then.length) errors.push(refuse(type, 'add'));
    else if (JSON.stringify(now) !== JSON.stringify(then)) errors.push(refuse(type, 'modify'));
  }
  const [certificate = '', certificateBefore = ''] = [request.status?.certificate, old.status?.certificate];
  if (certificate !== certificateBefore) {
    const path = ['status', 'certificate'];
    if (allowed.certificate !== true) errors.push(forbiddenField(path, 'updates may not set certificate content'));
    else if (certificateBefore !== '') {
      errors.push(forbiddenField(path, 'updates may not modify existing certificate content'));
    }
  }
  return [...errors, ...validateObjectMetaUpdate(request.metadata, old.metadata)];
}
