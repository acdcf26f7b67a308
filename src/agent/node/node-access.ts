/** Who may ask this node for logs and commands: the API server decides, as for a kubelet with webhook authentication. */
import type { ApiClient } from '../../client/api-client.ts';
import type { ResourceReference } from '../../client/resource-reference.ts';
import { type SubjectAccessReview, subjectAccessReviewShape, tokenReviewShape } from '../../kube/kinds/reviews.ts';
import type { NodeAccess } from '../../node-server/node-access.ts';

const tokenReviews = {
  group: 'authentication.k8s.io',
  version: 'v1',
  plural: 'tokenreviews',
  kind: 'TokenReview',
  isNamespaced: false,
  shape: tokenReviewShape,
};
const accessReviews: ResourceReference<SubjectAccessReview> = {
  group: 'authorization.k8s.io',
  version: 'v1',
  plural: 'subjectaccessreviews',
  kind: 'SubjectAccessReview',
  isNamespaced: false,
  shape: subjectAccessReviewShape,
};
/** What the API server's own client certificate says of it: it has asked itself already who may do what. */
const masters = 'system:masters';

export function reviewedAccess(client: Pick<ApiClient, 'create'>, nodeName: string): NodeAccess {
  return {
    async authenticate(token, signal) {
      const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', metadata: {}, spec: { token } };
      const { status } = await client.create(tokenReviews, {}, review, signal);
      const user = status?.authenticated === true ? status.user : undefined;
      if (user === undefined) return undefined;
      const { username = '', uid = '', groups = [], extra = {} } = user;
      return { name: username, uid, groups, extra };
    },
    async authorize({ name, uid, groups, extra }, { verb, subresource }, signal) {
      if (groups.includes(masters)) return true;
      const resourceAttributes = { verb, version: 'v1', resource: 'nodes', subresource, name: nodeName };
      const review = {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        metadata: {},
        spec: { user: name, uid, groups, extra, resourceAttributes },
      };
      const { status } = await client.create(accessReviews, {}, review, signal);
      return status?.allowed === true;
    },
  };
}

/** On a node without an API server: only who shows a certificate of its administrators. */
export const mastersOnly: NodeAccess = {
  authenticate: async () => undefined,
  authorize: async ({ groups }) => groups.includes(masters),
};
