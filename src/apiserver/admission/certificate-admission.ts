/** Who asks for a certificate stands in the request, and who may approve or sign it depends on its signer. */
import { type CertificateSigningRequest, requestIn, signers } from '../../kube/kinds/certificate-signing-request.ts';
import { messageOf } from '../../base/errors.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import type { Authorizer } from '../identity/authorization.ts';
import { wellKnownGroups } from '../identity/user.ts';
import { type AdmissionRequest, type AdmissionStep, refuse } from './admission.ts';
import { sameContent } from './node-restriction.ts';

export function certificateAdmission(authorizer: Pick<Authorizer, 'authorize'>): AdmissionStep {
  return {
    admit(request) {
      const { operation, resource, subresource } = request;
      if (resource.plural !== 'certificatesigningrequests' || resource.group !== 'certificates.k8s.io')
        return undefined;
      if (operation === 'CREATE') return withRequestor(request);
      if (operation !== 'UPDATE') return undefined;
      if (subresource === 'approval') checkSigner(authorizer, request, 'approve');
      if (subresource === 'status' && changesOutcome(request)) checkSigner(authorizer, request, 'sign');
      return undefined;
    },
  };
}

function withRequestor(request: AdmissionRequest): CertificateSigningRequest {
  const { name: username, uid, groups, extra } = request.user;
  const object = request.object as CertificateSigningRequest;
  const { request: text, signerName, usages, expirationSeconds } = object.spec;
  if (signerName === signers.client && organizationsIn(request, object).includes(wellKnownGroups.masters)) {
    throw refuse(request, `use of ${signerName} signer with system:masters group is not allowed`);
  }
  // What the client says of itself does not count.
  const asked = {
    request: text,
    signerName,
    ...(usages && { usages }),
    ...(expirationSeconds !== undefined && { expirationSeconds }),
  };
  const hasExtra = Object.keys(extra).length > 0;
  return {
    ...object,
    spec: { ...asked, username, ...(uid !== '' && { uid }), groups, ...(hasExtra && { extra }) },
  };
}

function organizationsIn(request: AdmissionRequest, object: CertificateSigningRequest): readonly string[] {
  try {
    return requestIn(object).organizations;
  } catch (error) {
    throw refuse(request, `failed to parse CSR: ${messageOf(error)}`);
  }
}

function changesOutcome({ object, old }: AdmissionRequest): boolean {
  const [now, before] = [object, old].map((one) => (one as CertificateSigningRequest | undefined)?.status);
  return !sameContent(now?.certificate, before?.certificate) || !sameContent(now?.conditions, before?.conditions);
}

/** By the name of the signer, or of all of its domain. */
function checkSigner(authorizer: Pick<Authorizer, 'authorize'>, request: AdmissionRequest, verb: string): void {
  const { signerName } = (request.old as CertificateSigningRequest).spec;
  const [domain = ''] = signerName.split('/');
  const isAllowed = [signerName, `${domain}/*`].some(
    (name) =>
      authorizer.authorize(request.user, {
        kind: 'resource',
        verb,
        group: 'certificates.k8s.io',
        version: '*',
        resource: 'signers',
        subresource: '',
        namespace: '',
        name,
        fieldEquals: {},
      }).allowed,
  );
  if (!isAllowed)
    throw refuse(request, `user not permitted to ${verb} requests with signerName ${goQuote(signerName)}`);
}
