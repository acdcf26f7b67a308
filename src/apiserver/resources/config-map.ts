import { configMapKind } from '../../kube/kinds/config-map.ts';
import { ageColumn, nameColumn } from '../model/columns.ts';
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
