/** Rules for token requests. Whether the bound object exists is for whoever makes the token. */
import { invalidField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import type { TokenRequest } from '../objects/token-request.ts';

const lifetimeSecondsMin = 10 * 60;
const lifetimeSecondsMax = 2 ** 32;

/** Expects a defaulted request. */
export function validateTokenRequest({ spec }: TokenRequest): FieldError[] {
  const { expirationSeconds: seconds = 0, attestations = {} } = spec;
  const path = ['spec', 'expirationSeconds'];
  const errors: FieldError[] = [];
  if (seconds < lifetimeSecondsMin) {
    errors.push(invalidField(path, seconds, 'may not specify a duration less than 10 minutes'));
  }
  if (seconds > lifetimeSecondsMax) {
    errors.push(invalidField(path, seconds, 'may not specify a duration larger than 2^32 seconds'));
  }
  if (Object.keys(attestations).length === 0) return errors;
  const detail = 'attestations may only be specified with a webhook bound object reference';
  return [invalidField(['spec', 'attestations'], attestations, detail)];
}
