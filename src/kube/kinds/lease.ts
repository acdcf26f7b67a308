/** A lease: who holds something, and until when others should believe it. A node renews its own to show that it lives. */
import { type FieldError, forbiddenField, invalidField, unsupportedField } from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import { type Of, described, int32, object, string, microTime } from '../schema/schema.ts';
import { dnsSubdomainProblems } from '../values/names.ts';

export const leaseShape = described(
  { text: 'Who holds something, and until when.', fields: { spec: 'Who holds it, and until when.' } },
  object({
    ...objectFields,
    spec: described(
      {
        text: 'Who holds it, and until when.',
        fields: {
          holderIdentity: 'Who holds it; nobody if empty.',
          leaseDurationSeconds: 'For how long after renewTime the holder is believed.',
          acquireTime: 'When the holder got it.',
          renewTime: 'When the holder last said that it still holds it.',
          leaseTransitions: 'How often it changed hands.',
          strategy: 'How a holder is chosen among candidates.',
          preferredHolder: 'Who should get it next.',
        },
      },
      object({
        holderIdentity: string,
        leaseDurationSeconds: int32,
        acquireTime: microTime,
        renewTime: microTime,
        leaseTransitions: int32,
        strategy: string,
        preferredHolder: string,
      }),
    ),
  }),
);
export interface Lease extends Of<typeof leaseShape> {}

export const leaseKind = resourceKind<Lease>({
  group: 'coordination.k8s.io',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
  shape: leaseShape,
  validate: validateLease,
  validateUpdate: validateLeaseUpdate,
  wire: {
    Lease: '1 metadata ObjectMeta, 2 spec LeaseSpec',
    LeaseSpec: `
    1 holderIdentity?, 2 leaseDurationSeconds? int, 3 acquireTime MicroTime, 4 renewTime MicroTime,
    5 leaseTransitions? int, 6 strategy?, 7 preferredHolder?`,
  },
});

/** Rules for leases, on creation and on update. */
const strategies = ['OldestEmulationVersion'];

function validateLease(lease: Lease): FieldError[] {
  const rules = { name: dnsSubdomainProblems, scope: 'namespace' } as const;
  return [...validateObjectMeta(lease.metadata, rules), ...specErrors(lease.spec ?? {})];
}

function validateLeaseUpdate(lease: Lease, old: Lease): FieldError[] {
  return [...validateObjectMetaUpdate(lease.metadata, old.metadata), ...specErrors(lease.spec ?? {})];
}

function specErrors(spec: NonNullable<Lease['spec']>): FieldError[] {
  const { leaseDurationSeconds: duration, leaseTransitions: transitions, strategy, preferredHolder = '' } = spec;
  const errors: FieldError[] = [];
  if (duration !== undefined && duration <= 0) {
    errors.push(invalidField(['spec', 'leaseDurationSeconds'], duration, 'must be greater than 0'));
  }
  if (transitions !== undefined && transitions < 0) {
    errors.push(invalidField(['spec', 'leaseTransitions'], transitions, 'must be greater than or equal to 0'));
  }
  // Names with a domain are strategies of other programs.
  if (strategy !== undefined && !strategy.includes('/') && !strategies.includes(strategy)) {
    errors.push(unsupportedField(['spec', 'strategy'], strategy, strategies));
  }
  if (preferredHolder !== '' && (strategy ?? '') === '') {
    errors.push(forbiddenField(['spec', 'preferredHolder'], 'may only be specified if `strategy` is defined'));
  }
  return errors;
}
