import { leaseKind } from '../../kube/kinds/lease.ts';
import { ageColumn, nameColumn, text } from '../model/columns.ts';
import { resource } from '../model/resource.ts';

export const leases = resource(leaseKind, {
  columns: [nameColumn, text('Holder', 'Who holds it now.', ({ spec }) => spec?.holderIdentity ?? ''), ageColumn],
  allowsCreateOnUpdate: true,
  // Who overwrites a lease unseen takes it from its holder.
  allowsUnconditionalUpdate: false,
});
