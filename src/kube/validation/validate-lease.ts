/** Rules for leases, on creation and on update. */
import { forbiddenField, invalidField, unsupportedField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import type { Lease } from '../objects/lease.ts';
import { dnsSubdomainProblems } from '../values/names.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from './validate-metadata.ts';

const strategies = ['OldestEmulationVersion'];

export function validateLease(lease: Lease): FieldError[] {
  const rules = { name: dnsSubdomainProblems, scope: 'namespace' } as const;
  return [...validateObjectMeta(lease.metadata, rules), ...specErrors(lease.spec ?? {})];
}

export function validateLeaseUpdate(lease: Lease, old: Lease): FieldError[] {
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
  // Names with a domain are somebody else's strategies.
  if (strategy !== undefined && !strategy.includes('/') && !strategies.includes(strategy)) {
    errors.push(unsupportedField(['spec', 'strategy'], strategy, strategies));
  }
  if (preferredHolder !== '' && (strategy ?? '') === '') {
    errors.push(forbiddenField(['spec', 'preferredHolder'], 'may only be specified if `strategy` is defined'));
  }
  return errors;
}
