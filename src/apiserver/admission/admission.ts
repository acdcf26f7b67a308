/**
 * The contract of admission: a step looks at a write that was permitted and is well-formed, and changes or refuses it. Steps
 * run while no other write can happen, so what they read stays true.
 */
import type { User } from '../identity/user.ts';
import type { KubeObject, Resource } from '../model/resource.ts';
import { type Named, type StatusCause, type StatusError, forbidden, resourceName } from '../model/status.ts';

export interface AdmissionRequest {
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE';
  readonly user: User;
  readonly resource: Resource;
  readonly subresource: string;
  readonly namespace: string;
  /** Empty when it is yet to be generated. */
  readonly name: string;
  /** Absent for a deletion. */
  readonly object: KubeObject | undefined;
  /** Absent for a creation. */
  readonly old: KubeObject | undefined;
}

export interface AdmissionStep {
  /** Waits for what the step will need, before the write begins. Its signal is made when it is asked for. */
  prepare?(request: AdmissionRequest, ended: { readonly signal: AbortSignal }): Promise<void>;
  /** The object to go on with, or undefined for unchanged. Throws a StatusError to refuse. */
  admit(request: AdmissionRequest): KubeObject | undefined;
}

export function admitAll(steps: readonly AdmissionStep[], request: AdmissionRequest): KubeObject | undefined {
  let current = request;
  for (const step of steps) {
    const object = step.admit(current);
    // From the request as it came: only the object differs from step to step.
    if (object !== undefined) current = { ...request, object };
  }
  return current.object;
}

export function isNewPod({ operation, resource, subresource }: AdmissionRequest): boolean {
  return operation === 'CREATE' && resource.plural === 'pods' && resource.group === '' && subresource === '';
}

export function refuse(request: AdmissionRequest, text: string, causes?: readonly StatusCause[]): StatusError {
  const { metadata } = request.object ?? request.old ?? {};
  const name = request.name || metadata?.name || metadata?.generateName || 'Unknown';
  const what: Named = resourceName(request.resource);
  return forbidden(what, name, text, causes);
}
