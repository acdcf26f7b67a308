import {
  type Secret,
  defaultSecret,
  secretShape,
  validateSecret,
  validateSecretUpdate,
} from '../../kube/kinds/secret.ts';
import { ageColumn, nameColumn, text } from '../model/columns.ts';
import { resource } from '../model/resource.ts';

export const secrets = resource<Secret>({
  version: 'v1',
  plural: 'secrets',
  singular: 'secret',
  kind: 'Secret',
  namespaced: true,
  shape: secretShape,
  complete: defaultSecret,
  validate: (object) => validateSecret(object),
  validateUpdate: (object, old) => validateSecretUpdate(object, old),
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
