//! The hub's socket: every request it answers.

use crate::{
    Done,
    agent::{
        AgentIdentity, AgentRecord, AgentRecords, AuthAgent, BeginLaunch, EndLaunch, GetAgent, ListAgents,
        ListSessions, PutAgent, RemoveAgent, ReportAgent, Sessions, SetDesired, SetWaiting, SuspendAgent,
        ToolsListed, Wake, WatchAgents,
    },
    api_client::{
        AddClient, ApiClient, AuthClient, ClientIdentity, ClientMessage, Clients, ListClients, RemoveClient,
        ThreadPost,
    },
    ask::{
        AnswerAsk, AskPermission, AskResult, Asked, Decision, DismissAsk, OpenAsk, PermissionGone,
        StopWaiting, WaitAsk, WithdrawAsk,
    },
    attachment::{AddUpload, BeginUpload, Prunable, PruneAttachments, UploadBegun, Uploaded},
    chat::{
        Accepted, AgentPost, AttachmentFile, CancelMessage, GetAttachment, GetMessage, ListMessages,
        ListThreads, MarkRead, Message, MessagePage, PostNote, Posted, ReadMark, RetryMessage, SendMessage,
        Threads,
    },
    delivery::{
        BeginHandover, BindTurn, Delivery, Next, NextDelivery, OpenTurns, PromptRefused, ReportOutcome,
        TurnInterrupted, Turns,
    },
    event::{EventItem, EventPage, GetState, ListEvents, State, SubscribeEvents},
    hook::ReportHook,
    reminder::{
        CancelReminder, CancelledReminder, FireReminders, Fired, ListReminders, NextReminder, PruneReminders,
        Reminder, Reminders, ScheduleReminder, WatchReminders,
    },
    task::{
        BeginRun, Begun, ClaimRun, EnableTask, EndRun, ListRuns, ListTasks, NoteAttempt, ReportTaskFailure,
        Runs, Schedules, SyncTasks, TaskFailureCard, TaskInfo, TaskRun, Tasks, TasksChanged, WatchTasks,
    },
    voice::{CheckNote, EndNote, Note, TakeNote, Wanted},
};

crate::rpc::requests! {
    /// A request to the hub.
    HubRequest {
        /// All threads.
        "chat.threads" => ListThreads(ListThreads) -> Threads,
        /// A page of a thread.
        "chat.messages" => ListMessages(ListMessages) -> MessagePage,
        /// One message.
        "chat.message" => GetMessage(GetMessage) -> Message,
        /// A message from a person.
        "chat.send" => SendMessage(SendMessage) -> Accepted,
        /// Send a failed message again.
        "chat.retry" => RetryMessage(RetryMessage) -> Message,
        /// Take a waiting message back.
        "chat.cancel" => CancelMessage(CancelMessage) -> Message,
        /// Move the read mark.
        "chat.read" => MarkRead(MarkRead) -> ReadMark,
        /// A message from an agent.
        "chat.post" => AgentPost(AgentPost) -> Posted,
        /// A note from us.
        "chat.note" => PostNote(PostNote) -> Posted,
        /// An attachment's file.
        "chat.attachment" => GetAttachment(GetAttachment) -> AttachmentFile,
        /// Whether an upload may begin.
        "attachment.begin" => BeginUpload(BeginUpload) -> UploadBegun,
        /// An upload is complete.
        "attachment.add" => AddUpload(AddUpload) -> Uploaded,
        /// Files that are no longer kept.
        "attachment.prune" => PruneAttachments(PruneAttachments) -> Prunable,
        /// The next voice note to transcribe.
        "voice.take" => TakeNote(TakeNote) -> Note,
        /// Whether a voice note is still wanted.
        "voice.check" => CheckNote(CheckNote) -> Wanted,
        /// How an attempt to transcribe one ended.
        "voice.end" => EndNote(EndNote) -> Done,
        /// A question from an agent.
        "ask.open" => OpenAsk(OpenAsk) -> Asked,
        /// Wait for the end of an ask.
        "ask.wait" => WaitAsk(WaitAsk) -> AskResult,
        /// The harness no longer waits.
        "ask.stop_waiting" => StopWaiting(StopWaiting) -> Done,
        /// Take an ask back.
        "ask.withdraw" => WithdrawAsk(WithdrawAsk) -> Asked,
        /// Answer an ask, a prompt or a card.
        "ask.answer" => AnswerAsk(AnswerAsk) -> Asked,
        /// Close a questions card.
        "ask.dismiss" => DismissAsk(DismissAsk) -> Asked,
        /// A harness asks for permission or asks its questions.
        "permission.ask" => AskPermission(AskPermission) -> Decision,
        /// The harness ended the hook.
        "permission.gone" => PermissionGone(PermissionGone) -> Done,
        /// Leave a reminder.
        "reminder.schedule" => ScheduleReminder(ScheduleReminder) -> Reminder,
        /// A thread's open reminders.
        "reminder.list" => ListReminders(ListReminders) -> Reminders,
        /// Take a reminder back.
        "reminder.cancel" => CancelReminder(CancelReminder) -> CancelledReminder,
        /// Post what is due.
        "reminder.fire" => FireReminders(FireReminders) -> Fired,
        /// Forget what was settled long ago.
        "reminder.prune" => PruneReminders(PruneReminders) -> Done,
        /// Give an API client its token.
        "client.add" => AddClient(AddClient) -> ApiClient,
        /// All API clients.
        "client.list" => ListClients(ListClients) -> Clients,
        /// Take an API client's token away.
        "client.remove" => RemoveClient(RemoveClient) -> Done,
        /// Which API client a token belongs to.
        "client.auth" => AuthClient(AuthClient) -> ClientIdentity,
        /// A message from an API client to an agent.
        "client.message" => ClientMessage(ClientMessage) -> Accepted,
        /// A message for the person, from an API client or the operator.
        "chat.thread_post" => ThreadPost(ThreadPost) -> Accepted,
        /// Define or change an agent.
        "agent.put" => PutAgent(PutAgent) -> AgentRecord,
        /// All agents.
        "agent.list" => ListAgents(ListAgents) -> AgentRecords,
        /// One agent.
        "agent.get" => GetAgent(GetAgent) -> AgentRecord,
        /// Forget an agent.
        "agent.remove" => RemoveAgent(RemoveAgent) -> Done,
        /// What a person wants an agent to be.
        "agent.desired" => SetDesired(SetDesired) -> AgentRecord,
        /// Record a launch before it is made.
        "agent.launch" => BeginLaunch(BeginLaunch) -> AgentRecord,
        /// What was seen of a launch.
        "agent.report" => ReportAgent(ReportAgent) -> AgentRecord,
        /// A launch is over.
        "agent.end" => EndLaunch(EndLaunch) -> AgentRecord,
        /// An idle agent may rest.
        "agent.suspend" => SuspendAgent(SuspendAgent) -> AgentRecord,
        /// An agent's harness has our tools.
        "agent.tools" => ToolsListed(ToolsListed) -> Done,
        /// The newest sessions of an agent's harness.
        "agent.sessions" => ListSessions(ListSessions) -> Sessions,
        /// What pending messages wait for.
        "agent.waiting" => SetWaiting(SetWaiting) -> Done,
        /// Whose token this is.
        "agent.auth" => AuthAgent(AuthAgent) -> AgentIdentity,
        /// The next message to hand over.
        "delivery.next" => NextDelivery(NextDelivery) -> Next,
        /// A message is about to be handed over.
        "delivery.begin" => BeginHandover(BeginHandover) -> Delivery,
        /// How an attempt ended.
        "delivery.outcome" => ReportOutcome(ReportOutcome) -> Message,
        /// The running turn, and messages without one.
        "turn.open" => OpenTurns(OpenTurns) -> Turns,
        /// The turn of a message.
        "turn.bind" => BindTurn(BindTurn) -> Done,
        /// The harness dropped a prompt.
        "turn.refused" => PromptRefused(PromptRefused) -> Done,
        /// The running turn was interrupted.
        "turn.interrupted" => TurnInterrupted(TurnInterrupted) -> Done,
        /// All tasks.
        "task.list" => ListTasks(ListTasks) -> Tasks,
        /// The runs of a task.
        "task.runs" => ListRuns(ListRuns) -> Runs,
        /// Follow a task's schedule, or no longer.
        "task.enable" => EnableTask(EnableTask) -> TaskInfo,
        /// How far schedules were followed, and what runs.
        "task.sync" => SyncTasks(SyncTasks) -> Schedules,
        /// Make a run.
        "task.claim" => ClaimRun(ClaimRun) -> TaskRun,
        /// A run is about to start.
        "task.begin" => BeginRun(BeginRun) -> Begun,
        /// An attempt begins.
        "task.attempt" => NoteAttempt(NoteAttempt) -> Done,
        /// A run is over.
        "task.end" => EndRun(EndRun) -> TaskRun,
        /// A failed run that somebody else recorded.
        "task.failure" => ReportTaskFailure(ReportTaskFailure) -> TaskFailureCard,
        /// A hook's event.
        "hook" => ReportHook(ReportHook) -> Done,
        /// A page of the journal.
        "event.list" => ListEvents(ListEvents) -> EventPage,
        /// Everything an app begins with.
        "state" => GetState(GetState) -> State,
    }
    streams {
        /// The journal from a place on.
        "event.subscribe" => SubscribeEvents(SubscribeEvents) -> EventItem,
        /// Tasks and runs change.
        "task.watch" => WatchTasks(WatchTasks) -> TasksChanged,
        /// What the agents worker has to look at.
        "agent.watch" => WatchAgents(WatchAgents) -> Wake,
        /// When the next reminder is due.
        "reminder.watch" => WatchReminders(WatchReminders) -> NextReminder,
    }
}
