/** The configuration of credential providers: `CredentialProviderConfig`, as the kubelet reads it. Pure. */
import { parseYamlDocuments } from '../../kube/manifests/yaml-documents.ts';
import { registryMatches } from '../../kube/references/pull-credentials.ts';
import { showPath } from '../../kube/schema/field-errors.ts';
import { type Of, any, decode, list, object, string } from '../../kube/schema/schema.ts';
import { parseDurationMs } from '../../kube/values/times.ts';

export interface CredentialProvider {
  /** Of a program in the directory of providers. */
  readonly name: string;
  readonly apiVersion: string;
  readonly matchImages: readonly string[];
  /** How long an answer is kept that does not say so; 0: not at all. */
  readonly cacheMsDefault: number;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const provider = object({
  name: string,
  matchImages: list(string),
  defaultCacheDuration: string,
  apiVersion: string,
  args: list(string),
  env: list(object({ name: string, value: string })),
  tokenAttributes: any,
});
const configuration = object({ apiVersion: string, kind: string, providers: list(provider) });

const configurationVersions = ['v1', 'v1beta1', 'v1alpha1'].map((version) => `kubelet.config.k8s.io/${version}`);
const providerVersions = ['v1', 'v1beta1', 'v1alpha1'].map((version) => `credentialprovider.kubelet.k8s.io/${version}`);

interface ConfigurationFile {
  readonly path: string;
  readonly text: string;
}

interface ReadProviders {
  readonly providers: readonly CredentialProvider[];
  /** `/etc/providers.yaml: providers[0].name: …`; with any of them the configuration is not to be used. */
  readonly problems: readonly string[];
}

/** Several files are one configuration. */
export function readCredentialProviders(files: readonly ConfigurationFile[]): ReadProviders {
  const problems: string[] = [];
  const providers = files.flatMap(({ path, text }) => {
    const report = (problem: string): void => void problems.push(`${path}: ${problem}`);
    return providersIn(text, report).map((one, index) =>
      readProvider(one, (problem) => report(`providers[${index}].${problem}`)),
    );
  });
  const twice = providers.find(({ name }, index) => providers.findIndex((one) => one.name === name) !== index);
  if (twice !== undefined) problems.push(`the provider "${twice.name}" is configured twice`);
  if (providers.length === 0 && problems.length === 0) problems.push('no provider is configured');
  return { providers, problems };
}

type GivenProvider = Of<typeof provider>;

function providersIn(text: string, report: (problem: string) => void): readonly GivenProvider[] {
  const [document, ...more] = parseYamlDocuments(text);
  for (const { position, message } of document?.problems ?? []) report(`line ${position.line}: ${message}`);
  if (more.length > 0) report('there is more than one document in it');
  const { value, problems } = decode(configuration, document?.value ?? {});
  for (const { path, message } of problems) report(`${showPath(path)}: ${message}`);
  const { apiVersion = '', kind = '', providers = [] } = value;
  if (!configurationVersions.includes(apiVersion) || kind !== 'CredentialProviderConfig')
    report(`it must have apiVersion: ${configurationVersions[0]} and kind: CredentialProviderConfig`);
  return providers;
}

function readProvider(given: GivenProvider, report: (problem: string) => void): CredentialProvider {
  const { name = '', apiVersion = '', matchImages = [], args = [], env = [] } = given;
  if (name === '' || name === '.' || name === '..' || /[/ ]/.test(name))
    report(`name: ${JSON.stringify(name)} must be the name of a file, without "/" and blanks`);
  if (!providerVersions.includes(apiVersion))
    report(`apiVersion: ${JSON.stringify(apiVersion)} must be one of ${providerVersions.join(', ')}`);
  if (matchImages.length === 0) report('matchImages: at least one is required');
  for (const pattern of matchImages) {
    // A pattern that does not even match itself without its globs is no address.
    const plain = pattern.replace(/[*?]/g, 'x');
    if (!registryMatches(plain, plain))
      report(`matchImages: ${JSON.stringify(pattern)} must be as in "*.example.com/team"`);
  }
  const cacheMs = parseDurationMs(given.defaultCacheDuration ?? '') ?? -1;
  if (cacheMs < 0) report('defaultCacheDuration: must be a duration such as 10m, or 0s');
  if (given.tokenAttributes !== undefined)
    report('tokenAttributes: service account tokens are not given to credential providers here: remove the field');
  return {
    name,
    apiVersion,
    matchImages,
    cacheMsDefault: Math.max(cacheMs, 0),
    args,
    env: Object.fromEntries(env.map(({ name: key = '', value = '' }) => [key, value])),
  };
}
