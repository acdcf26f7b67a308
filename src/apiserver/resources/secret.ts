import { defaultSecret } from '../../kube/defaults/default-objects.ts';
import { type Secret, secret } from '../../kube/objects/secret.ts';
import { validateSecret, validateSecretUpdate } from '../../kube/validation/validate-secret.ts';
import { ageColumn, nameColumn, text } from '../model/columns.ts';
import { resource } from '../model/resource.ts';

export const secrets = resource<Secret>({
  version: 'v1',
  plural: 'secrets',
  singular: 'secret',
  kind: 'Secret',
  namespaced: true,
  shape: secret,
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
