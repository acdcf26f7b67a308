/**
 * A volume kind of its own, outside of mountlet: files made from templates, in which the pod's name and labels are filled in.
 * They follow the labels: `kubectl label pod web tier=gold` changes the files within milliseconds.
 *
 *   volumes:
 *     - name: greeting
 *       csi:
 *         driver: template.example.com
 *         volumeAttributes: { motd: 'This is {name}, {tier} tier.' }
 *
 * Given to a node: startNode(settings, { ...nodeDefaults, plugins: (parts) => [...standardPlugins(parts), templatePlugin()] }, signal)
 */
import { mkdirSync, rmSync } from 'node:fs';
import { AtomicWriter, type Pod, type VolumePlugin } from 'mountlet';

const driver = 'template.example.com';

/** Templates by the name of their file. */
type Templates = Readonly<Record<string, string>>;

export function templatePlugin(): VolumePlugin<Templates> {
  return {
    name: 'example.com/template',
    supportsMountOptions: false,
    sourceOf: ({ volume }) => (volume?.csi?.driver === driver ? (volume.csi.volumeAttributes ?? {}) : undefined),
    follows: () => [{ pod: 'labels' }],
    attributes: () => ({ readOnly: true, replaced: true }),
    async setUp({ pod, source, directory }) {
      const files = Object.entries(source).map(([name, template]) => {
        return [name, { data: Buffer.from(fill(template, pod)), mode: 0o644 }] as const;
      });
      mkdirSync(directory, { recursive: true });
      const { changed } = new AtomicWriter(directory).write(new Map(files));
      return { changed, files: files.length, hidden: [] };
    },
    async tearDown({ directory }) {
      rmSync(directory, { recursive: true, force: true });
    },
    // After a restart a name is enough to take the volume down.
    reconstruct: (name) => ({ volume: { name, csi: { driver } }, readOnly: true }),
  };
}

function fill(template: string, { metadata: { name, labels = {} } }: Pod): string {
  return template.replace(/\{(\w+)\}/g, (_, word: string) => (word === 'name' ? name : (labels[word] ?? '')));
}
