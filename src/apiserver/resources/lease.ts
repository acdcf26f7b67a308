import { type Lease, leaseShape, validateLease, validateLeaseUpdate } from '../../kube/kinds/lease.ts';
import { ageColumn, nameColumn, text } from '../model/columns.ts';
import { resource } from '../model/resource.ts';

export const leases = resource<Lease>({
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  singular: 'lease',
  kind: 'Lease',
  namespaced: true,
  shape: leaseShape,
  validate: validateLease,
  validateUpdate: validateLeaseUpdate,
  columns: [nameColumn, text('Holder', 'Who holds it now.', ({ spec }) => spec?.holderIdentity ?? ''), ageColumn],
  allowsCreateOnUpdate: true,
  // Who overwrites a lease unseen takes it from its holder.
  allowsUnconditionalUpdate: false,
});
