/** `mountlet controllers`: the loops of a cluster's control plane, over HTTP, until a signal ends them. */
import {
  type ControllersNotice,
  clusterControllers,
  runClusterControllers,
} from '../agent/embedded/cluster-controllers.ts';
import { type LogLevel, type LogLine, logLine } from '../agent/node/notices.ts';
import { messageOf } from '../base/errors.ts';
import { clusterAccess } from '../client/credentials/cluster-access.ts';
import { type ClusterOptions, machineAccess } from './cluster-client.ts';
import { logPrinter, statePrinter } from './log-printer.ts';
import { type LogFormat, reportingErrors, untilSignal } from './terminal.ts';

export interface ControllersOptions extends ClusterOptions {
  readonly inCluster?: boolean;
  readonly leaderElect: boolean;
  readonly controllers: string;
  readonly csiController?: readonly string[];
  readonly disableForceDetachOnTimeout?: boolean;
  readonly logFormat: LogFormat;
  readonly logLevel: LogLevel;
}

export function controllersCommand(options: ControllersOptions): Promise<number> {
  const { kubeconfig, context, inCluster = false, controllers, leaderElect, logFormat, logLevel } = options;
  const { csiController: csiControllers = [] } = options;
  return reportingErrors(async () => {
    const print = logPrinter(logFormat, logLevel);
    const names = clusterControllers(controllers, csiControllers.length > 0);
    const stop = new AbortController();
    const stopped = untilSignal().then(() => stop.abort());
    const access = await clusterAccess({ kubeconfig, context, inCluster }, machineAccess());
    const started = (): void => {
      const message = `running on ${access.endpoint.url.origin}: ${[...names, ...csiControllers].join(', ')}`;
      statePrinter(logFormat)('ControllersRunning', message);
    };
    const running = runClusterControllers(
      {
        names,
        leaderElects: leaderElect,
        csiControllers,
        disablesForceDetachOnTimeout: options.disableForceDetachOnTimeout === true,
      },
      { access, started, notify: (notice) => print(lineOf(notice)) },
      stop.signal,
    );
    await Promise.race([running, stopped]);
    await running;
  }, logFormat);
}

function lineOf(notice: ControllersNotice): LogLine {
  const { kind } = notice;
  if (kind === 'LeaseFailed') {
    return { level: 'warning', kind, message: `lease: ${messageOf(notice.error)}`, error: messageOf(notice.error) };
  }
  if (kind !== 'LeaderChanged') return logLine(notice) ?? { level: 'debug', kind, message: kind };
  const { holder, isOurs } = notice;
  const message = isOurs ? `${holder} leads: this process` : `standing by: ${holder || 'no process'} leads`;
  return { level: 'info', kind, message };
}
