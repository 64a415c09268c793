/** Method and path of every operation of the Gigadrive front door: an application is a project. Free of any import, as `routes.ts`. */
const application = "/applications/{applicationId}";
const queues = `${application}/queues`;
const queue = `${queues}/{queueName}`;
const messages = `${queue}/messages`;
const message = `${messages}/{messageId}`;
const deployment = `${application}/deployments/{deploymentId}`;
const environment = `${application}/environments/{environmentId}`;

export const gigadriveRoutes = {
  GigadriveListQueues: { method: "GET", path: queues },
  GigadriveCreateQueue: { method: "POST", path: queues },
  GigadrivePutQueue: { method: "PUT", path: queue },
  GigadriveGetQueue: { method: "GET", path: queue },
  GigadriveUpdateQueue: { method: "PATCH", path: queue },
  GigadriveDeleteQueue: { method: "DELETE", path: queue },
  GigadrivePauseQueue: { method: "POST", path: `${queue}/pause` },
  GigadriveResumeQueue: { method: "POST", path: `${queue}/resume` },
  GigadrivePurgeQueue: { method: "POST", path: `${queue}/purge` },
  GigadriveRedrive: { method: "POST", path: `${queue}/redrive` },
  GigadriveSend: { method: "POST", path: messages },
  GigadriveListMessages: { method: "GET", path: messages },
  GigadriveReceive: { method: "POST", path: `${messages}/receive` },
  GigadriveAckMessages: { method: "POST", path: `${messages}/ack` },
  GigadriveGetMessage: { method: "GET", path: message },
  GigadriveDeleteMessage: { method: "DELETE", path: message },
  GigadriveAckMessage: { method: "POST", path: `${message}/ack` },
  GigadriveNackMessage: { method: "POST", path: `${message}/nack` },
  GigadriveExtendMessage: { method: "POST", path: `${message}/extend` },
  ListSchedules: { method: "GET", path: `${queue}/schedules` },
  CreateSchedule: { method: "POST", path: `${queue}/schedules` },
  UpdateSchedule: { method: "PATCH", path: `${queue}/schedules/{scheduleName}` },
  DeleteSchedule: { method: "DELETE", path: `${queue}/schedules/{scheduleName}` },
  ApplyConfig: { method: "POST", path: `${application}/config` },
  ListDeployments: { method: "GET", path: `${application}/deployments` },
  PutDeployment: { method: "PUT", path: deployment },
  GetDeployment: { method: "GET", path: deployment },
  PromoteDeployment: { method: "POST", path: `${deployment}/promote` },
  RetireDeployment: { method: "DELETE", path: deployment },
  ListEnvironments: { method: "GET", path: `${application}/environments` },
  CreateEnvironment: { method: "POST", path: `${application}/environments` },
  GetEnvironment: { method: "GET", path: environment },
  GetSigningSecret: { method: "GET", path: `${environment}/signing-secret` },
  RotateSigningSecret: { method: "POST", path: `${environment}/signing-secret/rotate` },
  ActivateSigningSecret: { method: "POST", path: `${environment}/signing-secret/activate` },
} as const;
