/**
 * Names a token in the cache and in messages: everything about it but the token. The form is that of the kubelet's key, which
 * users see when a token has expired.
 */
import { goQuote } from '../kube/values/go-text.ts';

/** What a token is asked for with. */
export interface ServiceAccountTokenRequest {
  readonly namespace: string;
  readonly serviceAccountName: string;
  /** Empty: the API server's own audience. */
  readonly audiences: readonly string[];
  /** Left out: the API server decides. */
  readonly expirationSeconds?: number | undefined;
  /** The token dies with this pod. */
  readonly pod: { readonly name: string; readonly uid: string };
  /** The service account must still be this one: of another with the same name, no token is given. */
  readonly serviceAccountUid?: string | undefined;
}

export function tokenRequestKey({
  namespace,
  serviceAccountName,
  audiences,
  expirationSeconds = 0,
  pod,
  serviceAccountUid = '',
}: ServiceAccountTokenRequest): string {
  const list = audiences.length === 0 ? '(nil)' : `{${audiences.map(goQuote).join(', ')}}`;
  const bound = `v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:${goQuote(pod.name)}, UID:${goQuote(pod.uid)}}`;
  return [
    goQuote(serviceAccountName),
    goQuote(namespace),
    `[]string${list}`,
    String(expirationSeconds),
    bound,
    goQuote(serviceAccountUid),
  ].join('/');
}
