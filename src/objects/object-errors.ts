/** Why an object cannot be had. The messages are the kubelet's, to the letter: they end up in events and pod status. */
import { MountletError } from '../base/errors.ts';
import { goQuote } from '../kube/values/go-text.ts';
import type { ObjectId } from './object-id.ts';

/** The only trouble that `optional: true` forgives. */
export class ObjectNotFoundError extends MountletError {
  readonly reason = 'NotFound';

  /** `resource` is singular where we found out ourselves, and plural where the server says so. */
  static of(resource: string, name: string): ObjectNotFoundError {
    return new ObjectNotFoundError(`${resource} ${goQuote(name)} not found`);
  }
}

/** No registered pod names the object. Not a NotFound: nobody asked the server. */
export class ObjectNotRegisteredError extends MountletError {
  readonly reason = 'ObjectNotRegistered';

  constructor({ namespace, name }: ObjectId) {
    super(`object ${goQuote(namespace)}/${goQuote(name)} not registered`);
  }
}

/** The first list did not come in time; the cause, where there is one, is the last thing that went wrong with it. */
export class ObjectNotSyncedError extends MountletError {
  readonly reason = 'ObjectNotSynced';

  constructor(singular: string, options?: ErrorOptions) {
    super(`failed to sync ${singular} cache: timed out waiting for the condition`, options);
  }
}

/** A name that could lead a request elsewhere. Pods may have such names: the API server does not look at them. */
export class InvalidObjectNameError extends MountletError {
  readonly reason = 'InvalidObjectName';

  constructor(name: string, problems: readonly string[]) {
    super(`invalid resource name ${goQuote(name)}: [${problems.join(' ')}]`);
  }
}

/** The server may not, or not yet, show us these objects. */
export class WatchRefusedError extends MountletError {
  readonly reason = 'WatchRefused';
}

/** A server that answers with another object than the one asked for must not make a pod read it. */
export class WrongObjectError extends MountletError {
  readonly reason = 'WrongObject';

  constructor(asked: ObjectId, answered: { readonly namespace?: string | undefined; readonly name: string }) {
    super(
      `Cannot use the API server's answer for "${asked.namespace}/${asked.name}": it is the object "${answered.namespace ?? ''}/${answered.name}"`,
    );
  }
}

export class UnknownStrategyError extends MountletError {
  readonly reason = 'UnknownStrategy';

  constructor(value: string) {
    super(`unknown configmap and secret manager mode: ${value}`);
  }
}
