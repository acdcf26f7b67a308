/** ClusterTrustBundles, of the version that is stored and of the one that nodes before it ask for. */
import { type ClusterTrustBundle, trustBundleKind } from '../../kube/kinds/cluster-trust-bundle.ts';
import { nameColumn, orNone, text } from '../model/columns.ts';
import { resource } from '../model/resource.ts';

export const clusterTrustBundles = resource(trustBundleKind, {
  fields: { 'spec.signerName': ({ spec }) => spec.signerName ?? '' },
  columns: [nameColumn, text('SignerName', 'Whose certificates they are.', ({ spec }) => orNone(spec.signerName))],
  allowsUnconditionalUpdate: false,
});

export const clusterTrustBundlesBeta = resource(trustBundleKind, {
  ...clusterTrustBundles,
  version: 'v1beta1',
  viewOf: {
    resource: clusterTrustBundles,
    toStored: (object) => ({ ...object, apiVersion: 'certificates.k8s.io/v1' }),
    // Only bundles are stored under this resource's key.
    fromStored: (stored) => ({ ...(stored as ClusterTrustBundle), apiVersion: 'certificates.k8s.io/v1beta1' }),
  },
});
