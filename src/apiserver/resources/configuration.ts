/** The resources that configure pods: ConfigMaps, Secrets and ClusterTrustBundles. */
import { type ClusterTrustBundle, trustBundleKind } from '../../kube/kinds/cluster-trust-bundle.ts';
import { configMapKind } from '../../kube/kinds/config-map.ts';
import { secretKind } from '../../kube/kinds/secret.ts';
import { ageColumn, nameColumn, orNone, text } from '../model/columns.ts';
import { resource } from '../model/resource.ts';

export const configMaps = resource(configMapKind, {
  columns: [
    nameColumn,
    {
      name: 'Data',
      type: 'string',
      description: 'How many entries it has, of text and of bytes.',
      priority: 0,
      cell: ({ data = {}, binaryData = {} }) => Object.keys(data).length + Object.keys(binaryData).length,
    },
    ageColumn,
  ],
});

export const secrets = resource(secretKind, {
  fields: { type: ({ type = '' }) => type },
  columns: [
    nameColumn,
    text('Type', 'What the entries are for.', ({ type = '' }) => type),
    {
      name: 'Data',
      type: 'string',
      description: 'How many entries it has.',
      priority: 0,
      cell: ({ data = {} }) => Object.keys(data).length,
    },
    ageColumn,
  ],
  isSecret: true,
});

/** ClusterTrustBundles, of the version that is stored and of the one that nodes before it ask for. */
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
