/** Tokens that a node may request: for pods that run on it, bound to them, and for audiences that they name. */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { TokenRequest } from '../../kube/kinds/service-account.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import type { Admission, Restriction, RestrictionLookup } from './node-restriction.ts';

/** `admission.object` is the TokenRequest, `admission.namespace` that of the account and the pod. */
export function restrictNodeToken(
  userName: string,
  node: string,
  { namespace, object }: Pick<Admission, 'namespace' | 'object'>,
  lookup: Pick<RestrictionLookup, 'pod'>,
): Restriction | undefined {
  const { audiences = [], boundObjectRef: bound } = (object as Partial<TokenRequest>).spec ?? {};
  const { name = '', uid = '' } = bound ?? {};
  if (bound?.apiVersion !== 'v1' || bound.kind !== 'Pod' || name === '') {
    return forbidden('node requested token not bound to a pod');
  }
  if (uid === '') return forbidden('node requested token with a pod binding without a uid');
  const pod = lookup.pod(namespace, name);
  if (pod === undefined) return { kind: 'notFound', resource: 'pods', name };
  if (pod.metadata.uid !== uid) {
    return forbidden(
      `the UID in the bound object reference (${uid}) does not match the UID in record. The object might have been deleted and then recreated`,
    );
  }
  if (pod.spec.nodeName !== node) return forbidden('node requested token bound to a pod scheduled on a different node');
  if (audiences.length > 1) return forbidden('node may only request 0 or 1 audiences');
  const [audience = ''] = audiences;
  if (projectedAudiences(pod).includes(audience)) return undefined;
  return forbidden(`${userName} is not authorized to request tokens for audience ${goQuote(audience)}`);
}

function projectedAudiences({ spec }: Pod): readonly string[] {
  return (spec.volumes ?? []).flatMap(({ projected }) =>
    (projected?.sources ?? []).flatMap(({ serviceAccountToken: token }) =>
      token === undefined ? [] : [token.audience ?? ''],
    ),
  );
}

function forbidden(message: string): Restriction {
  return { kind: 'forbidden', message };
}
