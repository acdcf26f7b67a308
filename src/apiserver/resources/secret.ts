import { secretKind } from '../../kube/kinds/secret.ts';
import { ageColumn, nameColumn, text } from '../model/columns.ts';
import { resource } from '../model/resource.ts';

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
