/** CertificateSigningRequests: who may change what of them, and how they are shown. */
import {
  type CertificateSigningRequest,
  type RequestCondition,
  certificateSigningRequestKind,
  hasCondition,
  validateRequestUpdate,
} from '../../kube/kinds/certificate-signing-request.ts';
import { age, timestamp } from '../../kube/values/times.ts';
import { ageColumn, nameColumn, orNone, text } from '../model/columns.ts';
import { type Subresource, keepFields, resource } from '../model/resource.ts';

type Request = CertificateSigningRequest;

export const certificateSigningRequests = resource(certificateSigningRequestKind, {
  fields: { 'spec.signerName': ({ spec }) => spec.signerName },
  prepareForCreate: (request) => ({ ...request, status: {} }),
  prepareForUpdate: (request, old) => keepFields(request, old, 'spec', 'status'),
  subresources: [
    part('status', { certificate: true }, ({ status: { conditions, ...rest } = {} }, old) => ({
      ...rest,
      ...(conditions && { conditions: withDecisionsOf(old, conditions) }),
    })),
    part('approval', { approval: true }, ({ status: { conditions } = {} }, { status: { certificate } = {} }) => ({
      ...(conditions && { conditions }),
      ...(certificate !== undefined && { certificate }),
    })),
  ],
  columns: [
    nameColumn,
    ageColumn,
    text('SignerName', 'Who is to sign.', ({ spec }) => orNone(spec.signerName)),
    text('Requestor', 'Who asks.', ({ spec }) => spec.username ?? ''),
    text('RequestedDuration', 'How long the certificate should be good for.', ({ spec: { expirationSeconds } }) =>
      expirationSeconds === undefined ? '<none>' : age(expirationSeconds * 1000),
    ),
    text('Condition', 'What was decided.', conditionText),
  ],
});

function part(
  name: string,
  allowed: Parameters<typeof validateRequestUpdate>[2],
  statusOf: (request: Request, old: Request) => NonNullable<Request['status']>,
): Subresource<Request> {
  return {
    name,
    verbs: ['get', 'patch', 'update'],
    update: {
      prepare(request, old, now) {
        const { conditions, ...rest } = statusOf(request, old);
        const status = { ...rest, ...(conditions && { conditions: dated(conditions, old, now) }) };
        return { ...request, spec: old.spec, status };
      },
      validate: (request, old) => validateRequestUpdate(request, old, allowed),
    },
  };
}

/** A signer that sends back what it read may have lost a time of a decision on the way; one that is missing or new stays for validation. */
function withDecisionsOf({ status }: Request, conditions: readonly RequestCondition[]): readonly RequestCondition[] {
  const before = status?.conditions ?? [];
  return conditions.map((condition) => {
    const isDecision = condition.type === 'Approved' || condition.type === 'Denied';
    return (isDecision ? before.find(({ type }) => type === condition.type) : undefined) ?? condition;
  });
}

function dated(
  conditions: readonly RequestCondition[],
  { status }: Request,
  nowMs: number,
): readonly RequestCondition[] {
  const now = timestamp(nowMs);
  return conditions.map((condition) => {
    const same = status?.conditions?.find((one) => one.type === condition.type && one.status === condition.status);
    const { lastUpdateTime = now, lastTransitionTime = same?.lastTransitionTime ?? now } = condition;
    return { ...condition, lastUpdateTime, lastTransitionTime };
  });
}

function conditionText(request: Request): string {
  const decision = ['Denied', 'Approved'].find((type) => hasCondition(request, type)) ?? 'Pending';
  const failed = hasCondition(request, 'Failed') ? ',Failed' : '';
  return `${decision}${failed}${(request.status?.certificate ?? '') === '' ? '' : ',Issued'}`;
}
