//! Rules that can be broken on purpose, one at a time, to see whether the checks would notice.
//!
//! ```text
//!   if a != b && !mutation::is(Mutation::RuleThatAEqualsB) { refuse }
//! ```
//!
//! At the one line that implements a rule (or the few, where it is checked twice) the code asks
//! whether just this rule is broken in this run. Only with the cargo feature `mutations` can the
//! answer be yes; without it `is` is the constant `false`, and nothing of this is left in the
//! program. The list is one for the engine and the node around it, so that a run can name any.
//!
//! [`invariant!`](crate::invariant) is how the engine and the node assert. A mutation run can turn these
//! asserts off, so that only observers from outside are left to notice.

/// Each mutation with the sentence it breaks (of the rules in docs/invariants.md and docs/data-files.md) and
/// the place of the rule.
macro_rules! mutations {
    ($($variant:ident $name:literal $place:literal $sentence:literal)*) => {
        /// A rule that can be broken on purpose; each variant says the sentence that does not hold then.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutation {
            $(#[doc = $sentence] $variant,)*
        }

        impl Mutation {
            /// All of them, in the order of the pages that list them.
            pub const ALL: &[Mutation] = &[$(Mutation::$variant),*];

            /// As it is written on a command line.
            pub fn name(self) -> &'static str {
                match self { $(Mutation::$variant => $name),* }
            }

            /// The rule that does not hold under it.
            pub fn sentence(self) -> &'static str {
                match self { $(Mutation::$variant => $sentence),* }
            }

            /// The module and function that implement the rule.
            pub fn place(self) -> &'static str {
                match self { $(Mutation::$variant => $place),* }
            }
        }
    };
}

mutations! {
    // Applying.
    RunsAppliedWhole "runs-applied-whole" "paxos::state::grow"
        "Applying is defined slot by slot: the result does not depend on how runs are cut."
    ContinuesAtAnyLength "continues-at-any-length" "paxos::state::open"
        "An open-stream that continues another takes effect only if that one's output is then exactly so long."
    FirstClaimIgnored "first-claim-ignored" "replica::ingest::claim::is_claimed"
        "A log whose leader changes is kept for its writer for a while, before others may write."
    CopiesNotAwaited "copies-not-awaited" "paxos::copies::copied_end"
        "What a log acknowledges is durable on as many full voters as its wish says."
    BehindCountsAsCopy "behind-counts-as-copy" "paxos::copies::whole_copies"
        "A voter that was away is a copy of a log again once it holds all that is chosen, and not all that it knows to be chosen."
    ContinuedTwice "continued-twice" "paxos::state::open, replica::ingest::open_next"
        "A stream is continued by one other at most."
    StreamNumberReused "stream-number-reused" "paxos::state::open, replica::ingest::open_next"
        "A stream is new only if its number exceeds every number its owner used before, in this start of the node or an earlier one."
    ReconfigureInAnyEra "reconfigure-in-any-era" "paxos::state::act"
        "A reconfiguration names its era; in another it is a no-op."

    // The directory's wishes for a log.
    OlderWishTakesEffect "older-wish-takes-effect" "paxos::wish::wish_for"
        "A wish takes effect only if its number is above the number of the last one that the log has chosen."
    StaleWishTrims "stale-wish-trims" "paxos::state::act"
        "A trim that is derived from a wish takes effect only while that wish is the log's last."
    StaleWishReconfigures "stale-wish-reconfigures" "paxos::state::act"
        "A step of weights that is derived from a wish takes effect only while that wish is the log's last."
    SealedLogTakesStreams "sealed-log-takes-streams" "paxos::wish::is_sealed"
        "A log that is sealed opens no stream, and none grows."
    OkBeforeTheLogHeard "ok-before-the-log-heard" "node::cluster::wishing::has_heard"
        "An operator is told ok once the log concerned has chosen what he wants."
    ReplayActs "replay-acts" "node::cluster::confirming::is_confirmed"
        "What is read of the directory below a barrier of this start proposes nothing."
    DirectoryAnsweredWithoutBarrier "directory-answered-without-barrier" "node::cluster::confirming::has_passed"
        "An answer of the directory stands behind a read barrier that was begun after the request."
    NameFreedBeforeTheSeal "name-freed-before-the-seal" "node::cluster::wishing::has_ended"
        "A name is freed only once its log has chosen that it is sealed."
    EndsAnotherName "ends-another-name" "node::node::verbs::delete_log"
        "Log 0 ends the log that an operator named, and no other."
    AnotherClusterServed "another-cluster-served" "node::greeting::check_cluster"
        "A request that names another cluster is refused before it does anything."
    RescueKeepsTheWish "rescue-keeps-the-wish" "node::rescue::copy::settle"
        "What is carried out of a lost cluster obeys no wish of its directory."

    // Guests.
    GuestDeniedAtOnce "guest-denied-at-once" "node::hosted::small::on_event"
        "A command of a guest that was deposed is said never to be done once its stream has ended below it, and not before."
    HostAnswersBeforeChosen "host-answers-before-chosen" "host::group::leading::end_frame"
        "A command that wrote is answered once its frame is chosen."
    HostShowsUnchosen "host-shows-unchosen" "host::group::leading::answer_seen"
        "An answer that wrote nothing waits until all that it read is chosen."
    HostAnswersOfOlderReign "host-answers-of-older-reign" "host::group::leading::{on_deposed, on_passed}"
        "An answer that wrote nothing stands only if its barrier passes in the reign in which it was found."
    HostLeadsBeforeApplied "host-leads-before-applied" "host::group::leading::begin"
        "A leader executes commands once its shelf has all that was chosen before its stream."
    HostKeepsOverlay "host-keeps-overlay" "host::group::leading::{begin, on_deposed}"
        "What a leader wrote and nobody chose is forgotten with its reign."
    HostForgetsLaterWrites "host-forgets-later-writes" "host::group::leading::fetching"
        "A write is overlaid as long as a read that may be older than it is under way."
    HostReadsWithoutBarrier "host-reads-without-barrier" "host::group::looking::settle"
        "A read that is not stale begins a barrier after it came."
    HostReadsBeforeApplied "host-reads-before-applied" "host::group::looking::settle"
        "A read looks at the shelf once all that was chosen by its barrier is on it."

    HostSeesForgotten "host-sees-forgotten" "host::overlay::forgotten_in"
        "Below a prefix that a command forgot nothing is, though the shelf does not know it yet."
    TrimBehindOneState "trim-behind-one-state" "replica::stands::point_behind_states"
        "A log is trimmed no further than whole states durably stand that are a quorum."
    DoubtedStatesCount "doubted-states-count" "replica::marks::{is_doubted, is_outvoted}"
        "A state that differs from another, and that no quorum agrees with, is given to nobody."
    WordsOutliveProcesses "words-outlive-processes" "replica::stands::forget"
        "A word on a state counts as long as the process that said it is heard."
    ShortStatesCount "short-states-count" "replica::stands::{lacking, judge_states}"
        "A replica whose state does not durably stand where its log begins lacks bytes, and no member is taken away on its account."
    PieceBelowApplied "piece-below-applied" "host::group::copying::least"
        "A piece of a state is taken only if it was read at a position that is not below the copier's applied one."
    CopyIntoOldState "copy-into-old-state" "host::group::copying::on_piece"
        "A state is copied into an empty shelf."
    CopyWholeTooEarly "copy-whole-too-early" "host::group::copying::is_exact"
        "A copied state is whole once the log is applied up to the greatest position at which a piece was read."
    LargeWaitsForItself "large-waits-for-itself" "host::group::leading::execute"
        "A command whose rows are here is executed though nothing may leave memory before it is."
    StuckHostLeadsOn "stuck-host-leads-on" "node::hosted::hearing::is_stuck"
        "A leader whose host answers none of three questions leads no longer."
    StuckLaneLeadsOn "stuck-lane-leads-on" "host::group::keeping::stuck"
        "A leader on whose shelf nothing is put any more leads no longer."

    // Keys.
    CallsOfTheGoneKept "calls-of-the-gone-kept" "host::group::leading::forget_order"
        "What a connection asked for that has ended, and that is not executed or not chosen, is never executed again."
    SentPutBackAtOnce "sent-put-back-at-once" "host::group::leading::on_deposed"
        "What a deposed leader executed is put back or refused once its stream has ended without it, and not before."
    ReadsOvertaken "reads-overtaken" "host::group::leading::{on_deposed, on_chosen}"
        "A command that wrote nothing is not executed again behind what its order asked for later: it waits for that."
    PutBackInAnyPlace "put-back-in-any-place" "host::group::leading::again"
        "Calls that were not done are put back into their places."
    OrderOvertaken "order-overtaken" "host::group::leading::execute_one"
        "Calls of one order are executed one after the other, though one of them waits for rows."
    OnceDoneAgain "once-done-again" "door::slots::run"
        "A command of a session that is sent again is not executed again, whoever leads by then."
    ServedWithoutToken "served-without-token" "door::slots::serving"
        "A group executes commands on the slots that its own log says it has, and on no others."
    ChangesNotNoted "changes-not-noted" "door::slots::noted_under"
        "While a slot is copied to another group each change of it is noted."
    PrefixesNotNoted "prefixes-not-noted" "door::rows::note"
        "What is forgotten of a slot that is being copied is noted as a change."
    FreezeOfOldWish "freeze-of-old-wish" "door::slots::handover::{freeze, leave}"
        "A group lets a slot go for no wish that is older than the latest it has taken note of."
    ReleaseOfFrozen "release-of-frozen" "door::slots::handover::release"
        "What is frozen for a group goes there, whatever is wanted since."
    FoundedAgain "founded-again" "door::slots::handover::found"
        "A slot that was never here begins here once, and only at the group that the first map names."
    PagesInAnyOrder "pages-in-any-order" "door::slots::handover::take_rows"
        "A page of rows is taken only where the one before it ended."
    TailsInAnyOrder "tails-in-any-order" "door::slots::handover::{take_tail, own}"
        "Changes are taken in their order, each batch behind the one before it."
    OwnedBeforeFrozen "owned-before-frozen" "door::moving::incoming"
        "A group owns a slot only behind the freeze at the group that had it."
    OwnedWithoutTail "owned-without-tail" "door::moving::incoming"
        "A group owns a slot once it has all changes that were noted before the freeze."
    GoneUnasked "gone-unasked" "door::moving::outgoing"
        "The rows of a slot are forgotten once the group that is to have it says, of what is chosen, that it owns it."
    TimeLeftBehind "time-left-behind" "door::moving::incoming"
        "The time of a log is not before that of the group which a slot came from."
    FrozenSlotsExpire "frozen-slots-expire" "door::slots::used::save"
        "Nothing is done to a slot that is frozen, nor to one that is coming: not even what nobody asks for."
    CommandsReadWithoutBarrier "commands-read-without-barrier" "host::group::leading::end_round"
        "A command that wrote nothing is answered once a barrier has passed that was begun after it was executed."
    TimeGoesBack "time-goes-back" "host::group::leading::try_one"
        "The time of a log never goes back, whatever its next leader's clock says."
    FrameSkipped "frame-skipped" "host::intake::take"
        "Every chosen frame is applied."
    HistoryNotCompared "history-not-compared" "host::intake::compare"
        "A state goes on once its last frame was seen to be the log's, and not before."
    AppliedApart "applied-apart" "host::jobs::apply"
        "A shelf counts frames with their rows, in one batch."
    RepliesOutOfOrder "replies-out-of-order" "door::client::settle"
        "A connection's replies are sent in the order of its requests."
    UnknownRedirected "unknown-redirected" "door::door::asking::reply"
        "A command of which nobody knows what became is not answered."
    GroupsNotAwaited "groups-not-awaited" "door::door::asking::order"
        "A connection's command of another group waits until all before it are answered."
    SpreadAnsweredHalf "spread-answered-half" "door::spread::take"
        "A command of several groups is answered once all of them have."
    SlotOfAnotherGroup "slot-of-another-group" "door::groups::of_slot"
        "A command is executed by the group that serves its keys' slot."
    ExpiryNotNoted "expiry-not-noted" "door::slots::run"
        "A reader takes a key for expired once the time stands in a frame at which it is."
    FreeingTakesAllReserve "freeing-takes-all-reserve" "replica::lent::may_free"
        "What frees room takes half of a full disk's reserve at most: the other half is for what is under way, and for trims."
    SlotsChangedByAnOldMap "slots-changed-by-an-old-map" "node::node::slots::answer_for_map"
        "A door says that a move of slots is done or taken back by a map that has all that was chosen when it was asked."
    WatchesOutliveReigns "watches-outlive-reigns" "door::slots::begins"
        "When a node begins to lead, all that is watched there counts as changed."
    WatchedChangesUnseen "watched-changes-unseen" "door::slots::execute"
        "A transaction is not executed if a command changed a key that its client watches."

    // Named streams.
    KnownAppendedAgain "known-appended-again" "streams::execute::append::append"
        "What a producer appended is not appended again, however often it is asked for."
    StaleEpochAppends "stale-epoch-appends" "streams::execute::append::append"
        "A producer of an epoch before its latest appends nothing."
    GapTaken "gap-taken" "streams::execute::append::check_sequence"
        "A producer's appends have no gap, and an epoch begins with 0."
    ProducersShared "producers-shared" "streams::execute::append::append"
        "A producer of another principal is another, whatever its name."
    ClosedGrows "closed-grows" "streams::execute::append::append"
        "A closed stream takes nothing more."
    ClosedBeforeKnown "closed-before-known" "streams::execute::append::append"
        "A producer's append that is known is answered, though the stream is closed by now."
    TailNotCompared "tail-not-compared" "streams::execute::append::is_expected"
        "An append that expects a tail finds it, or does nothing."
    TailBeforeKnown "tail-before-known" "streams::execute::append::append"
        "A producer's append that is known is answered, though the tail is another than it expected."
    SequenceNotCompared "sequence-not-compared" "streams::execute::append::append"
        "A stream's sequence grows with each append that says one."
    LineageIgnored "lineage-ignored" "streams::read::read"
        "An offset of a stream that was deleted and made again, or of another, is refused."
    InheritedRenamed "inherited-renamed" "streams::chain::offset"
        "What a fork inherits has the offsets that its source gave out."
    ForkNotCounted "fork-not-counted" "streams::execute::create::create"
        "The bytes of a stream stay as long as a fork has them."
    HeldNameFree "held-name-free" "streams::execute::create::create"
        "A name is not given again while forks hold the bytes of its stream."
    SubPastAppend "sub-past-append" "streams::execute::create::take"
        "A fork takes no more of an append than it has."
    UseNotNoted "use-not-noted" "streams::request::notes_use"
        "A read of a stream whose time runs is noted, once an eighth of that time is over."
    EighthNotAdded "eighth-not-added" "streams::request::ends_ms"
        "A stream lives an eighth longer than its time, as reads within an eighth are not noted."
    OverLivesOn "over-lives-on" "streams::execute::named"
        "A stream whose time is over is not there for anybody, and does not come back."
    AppendIsNoUse "append-is-no-use" "streams::execute::append::append"
        "An append is a use of a stream whose time runs."
    IdUsedAgain "id-used-again" "streams::execute::remove::purge"
        "The id of a stream is never given again."
    BytesOutliveStream "bytes-outlive-stream" "streams::execute::remove::purge"
        "The bytes of a stream that nobody holds are forgotten."
    BytesCountedForEver "bytes-counted-for-ever" "streams::execute::limit::release_bytes"
        "The bytes of a stream that is gone count for no limit."
    ReleasedSourceKept "released-source-kept" "streams::execute::remove::purge"
        "A deleted stream goes with the last fork that held it."
    HeldBytesTrimmed "held-bytes-trimmed" "streams::execute::trim::trim"
        "No byte that a fork holds goes by its source's retention."
    TooMuchTrimmed "too-much-trimmed" "streams::execute::trim::beyond_size"
        "A stream keeps as many of its last bytes as its retention says."
    YoungBytesTrimmed "young-bytes-trimmed" "streams::execute::trim::beyond_age"
        "A stream keeps what was appended within the age of its retention."
    TrimmedIsEmpty "trimmed-is-empty" "streams::read::read"
        "An offset before what is left of a stream is refused, and not read as another place."
    MessageCut "message-cut" "streams::chain::ends_message"
        "Streams of JSON are read and forked at the ends of messages."
    UnknownAskedAgain "unknown-asked-again" "spaces::spaces::submit"
        "A request that may have been done is asked for again only if its twin would do nothing."
    SilentTakenForNever "silent-taken-for-never" "spaces::spaces::not_known"
        "A request of which nobody knows what became is not said to be undone."
    StaleLooks "stale-looks" "spaces::spaces::see"
        "A look that need not be stale has all that was answered before it was asked for."

    // The past of disks.
    IncarnationNotDurable "incarnation-not-durable" "node::past::{is_written, save}"
        "A node keeps on its disk which start of each other node it met, before anything of it is heard."
    OlderStartAdmitted "older-start-admitted" "store::past::met::check, node::peers::admission::goes_on_as"
        "A directory that lacks a start of its node that was met, or an end that was told, is refused."
    TodaysEndsBelieved "todays-ends-believed" "store::past::met::check"
        "What an earlier start of a node told is compared with what the later one found, not with what it wrote since."
    DisksNeedNoProof "disks-need-no-proof" "node::peers::hello::check_proof, node::node::remembering::on_past"
        "Whoever says that he is a disk which a key names signs with that key what the other node asks him to."
    EvidenceIgnored "evidence-ignored" "node::node::remembering::on_evidence"
        "A node that is shown what its own disk said, and that its directory has forgotten, stops, whoever shows it."
    ActsBeforeItAsks "acts-before-it-asks" "node::start::open"
        "A node that comes back promises, accepts and leads nothing before its peers said what they remember."
    ContradictingStateInstalled "contradicting-state-installed" "paxos::learner::on_state"
        "A state that lacks or contradicts what is known to be chosen here replaces nothing."

    // Phase 1.
    BoundSlotPromisedFree "bound-slot-promised-free" "paxos::follower::send_promise"
        "A promise reports every acceptance at or above the first unchosen slot."
    PromiseFromIgnored "promise-from-ignored" "paxos::phase1::evaluate_phase1"
        "A promise says nothing below its `from`; the proposer first catches up to it."
    HighestTermIgnored "highest-term-ignored" "paxos::safety::plan"
        "A bound slot gets the value of the highest accepted term reported."
    PromiseGoesBack "promise-goes-back" "paxos::follower::on_prepare"
        "A promise is never taken back for an older term."
    PromiseBeforeDurable "promise-before-durable" "paxos::follower::send_promise"
        "A promise is durable before it is told."
    PromiseNotPersisted "promise-not-persisted" "store::replay"
        "A promise is never forgotten, over no restart."
    OwnPromiseNotAwaited "own-promise-not-awaited" "paxos::phase1::evaluate_phase1"
        "A node proposes in a term only after its own promise of it is durable."
    TermReused "term-reused" "paxos::leadership::next_term"
        "A node proposes only in terms above every promise found on its disk at start."

    PreparedAgainAfterAccepting "prepared-again-after-accepting" "paxos::follower::on_prepare"
        "A prepare for a term in which this acceptor has already accepted is not answered."
    UnknownEraPromised "unknown-era-promised" "paxos::follower::on_prepare, paxos::engine::raise_promise"
        "An acceptor promises a term of an era only once it knows all slots before that era."
    HiddenErasForgotten "hidden-eras-forgotten" "paxos::engine::{resting, may_promise}, paxos::follower::on_prepare"
        "A promise of an era that lost records hide is taken for what it proves: nothing is promised before that era is known."
    TermsOfStrangers "terms-of-strangers" "paxos::engine::believes, paxos::follower::on_prepare"
        "A term raises a promise only if its owner is a member in the term's era."
    NumbersBelievedFarAhead "numbers-believed-far-ahead" "paxos::engine::{see, believes}"
        "A term's number is believed only so far ahead of one's own highest that there is always room above it."
    PromiseForAnotherTermCounted "promise-for-another-term-counted" "paxos::phase1::on_promise"
        "Promises for other terms than the one that is prepared are ignored."

    // Phase 2.
    AcceptsBelowPromise "accepts-below-promise" "paxos::follower::heed_leader"
        "Nothing is accepted below the promise."
    PermitReusedInItsTerm "permit-reused-in-its-term" "paxos::proposer::propose"
        "Slots of a permit never get another value in the same term."
    PermitSurvivesPromise "permit-survives-promise" "paxos::engine::raise_promise, paxos::proposer::update_permit"
        "Raising the promise closes every permit."
    SlotInferredByCounting "slot-inferred-by-counting" "paxos::follower::on_propose"
        "Each batch says which slots it fills; a slot is never inferred by counting."
    AckBeforeDurability "ack-before-durability" "paxos::follower::on_propose"
        "Only a durable record is an acceptance: none is announced before."
    OwnWriteNotAwaited "own-write-not-awaited" "paxos::learner::quorum_end"
        "The leader counts its own acceptance once its own record is durable."
    HeldTakenForAccepted "held-taken-for-accepted" "paxos::follower::on_propose"
        "To hold the bytes is no acceptance: each term needs a record of its own."
    CrcNotCompared "crc-not-compared" "paxos::proposer::on_accepted, replica::follow::on_data"
        "An acceptance carries the checksum of its batch, and counts only if it is the leader's own."
    WindowUnbounded "window-unbounded" "paxos::proposer::update_permit"
        "Unchosen bytes per log are bounded."

    // Choosing and learning.
    ChosenWithoutAQuorum "chosen-without-a-quorum" "paxos::learner::quorum_end"
        "A slot is chosen only when a quorum accepted it."
    Q2OfTheWrongEra "q2-of-the-wrong-era" "paxos::learner::apply_chosen"
        "A slot is chosen by a quorum of its own era."
    AuxiliaryCountedWithoutBytes "auxiliary-counted-without-bytes" "paxos::learner::quorum_end"
        "An auxiliary counts only for what it durably accepted, as any other member."
    ReleasedTooEarly "released-too-early" "paxos::auxiliary::releasable"
        "An auxiliary is told to drop bytes only once every active member durably holds them."
    LearnedInAnotherTerm "learned-in-another-term" "paxos::learner::learn"
        "A follower takes for chosen only what it accepted in its leader's term, not what it accepted before it promised that term."
    LevelTooEarly "level-too-early" "paxos::proposer::is_level"
        "What is accepted and chosen is repeated until the peer is level."

    // Leading.
    LaterTermNotPreparedAbove "later-term-not-prepared-above" "paxos::phase1::redo_above"
        "A leader that hears of a later promise prepares above it."
    BackoffUncapped "backoff-uncapped" "paxos::leadership::backoff"
        "Backoff grows up to a limit."
    AbdicatesToAnyone "abdicates-to-anyone" "paxos::tenure::check_abdication"
        "Only a level, live follower succeeds."
    UnavailableBytesWaitedFor "unavailable-bytes-waited-for" "paxos::phase1::on_bytes_unavailable"
        "If the bytes of a bound run cannot be had, phase 1 is done again without their holders."
    PromiseNotToldInHeartbeat "promise-not-told-in-heartbeat" "node::node::beating::heartbeat"
        "A heartbeat lists each log whose promise left the leader's term."

    // The casting vote.
    CastingVoteWithoutSplit "casting-vote-without-split" "paxos::casting::split_votes"
        "At a casting vote only a quorum is asked to promise whose complement, with the leader, is a quorum that accepts."
    CastingPromiseNotAwaited "casting-promise-not-awaited" "paxos::phase1::evaluate_phase1"
        "At a casting vote nothing is proposed in the next term before the own promise of it is durable."
    FinishesBeyondItsEnd "finishes-beyond-its-end" "paxos::proposer::update_permit"
        "The own promise of a casting vote counts from the end of the permit: nothing is accepted there in the term before."
    EraSkipped "era-skipped" "paxos::safety::may_choose, paxos::proposer::propose"
        "A term chooses slots of its own era and of the next one only."

    // Members.
    WeightBeforeBytes "weight-before-bytes" "node::cluster::moving::lacks_for_weight"
        "A node is given weight once it durably holds all that was chosen before."
    HoldsBelowNotAsked "holds-below-not-asked" "paxos::auxiliary::is_held_after, node::cluster::moving::holds"
        "The engine itself proposes no step after which what was chosen before would be held by no quorum."
    DecrementWhileBytesMissing "decrement-while-bytes-missing" "node::cluster::moving::lacks_to_lose"
        "A node loses weight only when active members that are a quorum after it durably hold all untrimmed bytes."

    // Reads.
    ReadWithoutRound "read-without-round" "paxos::reads::settle_reads"
        "A linearizable read waits for a round of confirmations begun after it arrived."
    ReadNotWaitingForPhase1 "read-not-waiting-for-phase-1" "paxos::reads::settle_reads"
        "A linearizable read waits until every slot reported in phase 1 is chosen."
    BarrierAnsweredWithoutRound "barrier-answered-without-round" "paxos::reads::on_ask_barrier"
        "A follower's question for a barrier waits for a round of confirmations begun after it arrived."
    BarrierOfAnotherQuestion "barrier-of-another-question" "paxos::asking::on_barrier"
        "A follower counts only the answer to the question under way, by its leader in the leader's term."
    BarrierNotReached "barrier-not-reached" "paxos::asking::settle_asking"
        "A read of a follower waits until every slot below its leader's answer is applied."
    UnchosenBytesShown "unchosen-bytes-shown" "replica::read::serve::pump_reader"
        "Readers are shown only what is chosen."
    MissingBytesAreAnEnd "missing-bytes-are-an-end" "replica::read::serve::on_reader_bytes"
        "\"Not here\" is an answer, \"end\" is not."

    // Clients.
    ResumedOneByteLate "resumed-one-byte-late" "talk::append::opening::resumed"
        "A writer that lost its connection goes on with the first byte that is not known to be chosen."
    EarlierStreamsCounted "earlier-streams-counted" "talk::append::writing::hear"
        "A position that is acknowledged counts the bytes of its own stream alone."
    ReadOnPastItsPlace "read-on-past-its-place" "talk::read::lose"
        "A read that lost its server goes on right behind the last byte that it handed out."

    // Writers.
    AcknowledgedWhenProposed "acknowledged-when-proposed" "replica::ingest::acknowledge"
        "What was acknowledged is chosen."
    AckToASupersededWriter "ack-to-a-superseded-writer" "replica::ingest::on_opened"
        "A writer that another stream superseded is acknowledged nothing more."
    ResumeByOneNodesView "resume-by-one-nodes-view" "replica::ingest::open_next"
        "How long a stream is to be continued at is known from the outcome of an open-stream, never from one node's view."

    // Who may do what.
    HandedOutWhenLost "handed-out-when-lost" "node::directory::tokens::put"
        "A token that is handed out lies within its maker's grants when it is applied, and not only when it was asked for."
    HandedOutWhatIsLacked "handed-out-what-is-lacked" "node::directory::tokens::check_within"
        "Nobody hands out, rotates or revokes what he lacks himself."
    HandedOutByNobody "handed-out-by-nobody" "node::gate::judge, node::directory::tokens::check_within"
        "Who changes tokens is at the socket or shows one, also while tokens are not asked for."
    OnceLetsInTwo "once-lets-in-two" "node::directory::tokens::lets_in, node::node::verbs::join::has_let_in_another"
        "A token that is good once lets in one node, and that one again."
    AskedForThoughNoneMayAll "asked-for-though-none-may-all" "node::directory::tokens::check_set"
        "Tokens are asked for only once one may do all and has not expired."
    ExpiredGoesOn "expired-goes-on" "node::directory::tokens::has_expired"
        "A token that has expired is good for nothing."
    ExpiryByTheWallAlone "expiry-by-the-wall-alone" "node::directory::tokens::now_ms"
        "A token expires by the later of log 0's time and the wall clock."
    OverlapWithoutEnd "overlap-without-end" "node::directory::tokens::{is_of, has}"
        "A secret that was replaced is good until its overlap ends."
    HashesComparedInPart "hashes-compared-in-part" "node::directory::tokens::{is_of, has}"
        "A secret is a token's if all of its hash is."
    ServedByAnOldDirectory "served-by-an-old-directory" "node::node::asking::knows_rights"
        "A node that starts serves nobody by a directory that may be old."
    DeniedByAnOldWord "denied-by-an-old-word" "node::node::asking::judge_of"
        "A token is said not to be good only behind a barrier that was begun after it was shown."
    RevokedGoesOn "revoked-goes-on" "node::node::asking::judge_again"
        "Connections are judged again when log 0 says something new of tokens."
    AsBelievedOfClients "as-believed-of-clients" "node::greeting::on_received"
        "Who says for whom he asks is believed if he is a peer whose disk has proved itself, and nobody else."
    CertificateByWord "certificate-by-word" "node::greeting::may_ask_for_others"
        "Whose certificate somebody was shown is believed of nodes alone."
    EndedCertificateGoesOn "ended-certificate-goes-on" "node::directory::tokens::bound"
        "A client's certificate is nobody's once it has ended, on connections that are open, too."
    CutOffServesStale "cut-off-serves-stale" "node::node::asking::is_cut_off"
        "A node that has heard nothing of log 0's leader for a minute takes no new reads that ask nobody, where tokens are asked for."
    TicketNotCut "ticket-not-cut" "node::directory::issuers::of_ticket"
        "A ticket allows no more than its issuer's grants do."
    ExpiredTicketGoesOn "expired-ticket-goes-on" "node::directory::issuers::of_ticket"
        "A ticket is good for nothing once it has expired, on connections that are open, too."
    LogZeroCovered "log-zero-covered" "node::gate::of"
        "No grant covers the bytes of log 0."

    // The identity of a node.
    NameNotBound "name-not-bound" "node::directory::names::check_certificate"
        "Who speaks as a node shows the certificate whose name is bound to that node's id, once one is."
    DeletedLogResurrected "deleted-log-resurrected" "node::logs::going::begin"
        "A log that was deleted is never made again, on no node and over no restart."
    IncarnationNotBumped "incarnation-not-bumped" "node::start::open"
        "Each start of a node durably increments its incarnation before anything is sent."
    NewerVersionBeforeAgreed "newer-version-before-agreed" "node::node::versions::keep_to_versions"
        "Nothing stands in a log in a version that the cluster has not agreed on."
    VersionRaisedTooEarly "version-raised-too-early" "node::cluster::versions::{disks_are_in, raise_version}, node::directory::all_speak"
        "A version is agreed on only once no node can go back to a program that does not speak it."
    EmptyDiskKeepsItsId "empty-disk-keeps-its-id" "node::node::verbs::join::answer_join, node::node::verbs::peer::check_disk, node::peers::admission::admit"
        "A node that lost its disk is a new node: peers refuse a known id with another disk."
    LogListedTooEarly "log-listed-too-early" "node::logs::coming::advance"
        "The manifest lists a log only after its directory and first records are durable."

    // The contents of disks.
    FailedWriteIgnored "failed-write-ignored" "store::write::issue::on_written"
        "A write that failed is never retried, and nothing is acknowledged past it."
    CheckpointWithoutAcceptances "checkpoint-without-acceptances" "store::roll"
        "A segment's checkpoint holds all acceptances at or above the first unchosen slot."
    PromiseWithoutState "promise-without-state" "replica::log::persist"
        "The record of a promise holds the state in which its era is known."
    BlockWrittenAgain "block-written-again" "store::write::issue::issue_write"
        "A block that holds acknowledged data is never written again."
    PlaceNotGivenUp "place-not-given-up" "store::write::settle"
        "Nothing is received into a place of a file once another record is to stand there."
    IdleWatermarkLeftOut "idle-watermark-left-out" "store::write::idle::{append_idle, idle_deadline}"
        "After a moment without writes a record says that all before it is durable."
    StaleRecordParsed "stale-record-parsed" "store::recovery::walk"
        "Recovery stops at the first break above the watermark: what stands behind it was never durable."
    StartNotSettled "start-not-settled" "store::recover::settle"
        "A start makes durable what it reads: a process that was killed leaves what only memory may hold."
    LostActionTakenForLostBytes "lost-action-taken-for-lost-bytes" "store::recovery::walk::holds_bytes_alone"
        "A record whose payload is lost counts as accepted only if its header says all that was accepted."
    ContinuedWithoutRest "continued-without-rest" "store::recovery::verdict::resting"
        "A start goes on in the last segment only if the log rested, and nothing is wrong with it or behind it."
    LateWriteNotAwaited "late-write-not-awaited" "store::recover::recover"
        "A start goes on in the last segment only if no write of an earlier process can still come."
    SegmentForgottenTooEarly "segment-forgotten-too-early" "store::trim::trim"
        "A segment is forgotten only once every byte in it is trimmed."
    ForgottenBeforeKnownChosen "forgotten-before-known-chosen" "store::trim::lacks_word"
        "Trimmed bytes go only when a durable record here says that their trim is chosen."
    CorruptReadAsAbsent "corrupt-read-as-absent" "store::recovery::walk"
        "A break below a watermark is corruption, never the end."
    ForgetfulReplicaPromises "forgetful-replica-promises" "replica::log::new"
        "While a bad record may cover acceptances, the replica answers no prepare."
    UnreadableReadAsAbsent "unreadable-read-as-absent" "store::recovery::{walk, put_aside}"
        "A block that the device does not give is not absent: what was acknowledged last may stand in it, or the word that it was."
    TestimonyOfTheUnbornIgnored "testimony-of-the-unborn-ignored" "store::recovery::birth::put_aside"
        "A segment that was being born is put aside, and what it says of the one before is heeded."
    OlderFirstBlockBelieved "older-first-block-believed" "store::recovery::uses"
        "A file with an older segment's first block was never written as this one only if no record of this one is in it."
    AnySaltBelieved "any-salt-believed" "store::recovery::uses::newest"
        "Where a first block is lost, the newest record names the file's use, not the first that can be read."
    DoubtWithoutBound "doubt-without-bound" "store::recovery::decide::{walk, finish}"
        "What was lost is in doubt up to what a later header says; without one the replica does not start."
    GapForgotten "gap-forgotten" "store::recovery::decide::record"
        "Lost records are in doubt until a record that holds all that must not be forgotten."
    ChosenOverAGap "chosen-over-a-gap" "store::recovery::decide::record"
        "Behind lost records nothing is taken for chosen: the value may be a lost one."
    LostPromiseForgotten "lost-promise-forgotten" "store::recovery::decide::finish"
        "A promise whose record is lost is known from every later record."
    PayloadNotChecked "payload-not-checked" "formats::record::payload_is_right"
        "A record without a right payload checksum is no acceptance."
}

impl Mutation {
    /// The mutation of that name, as [`Mutation::name`] writes it.
    pub fn named(name: &str) -> Option<Mutation> {
        Mutation::ALL.iter().copied().find(|m| m.name() == name)
    }
}

#[cfg(feature = "mutations")]
mod switch {
    use super::Mutation;
    use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

    /// The broken rule of the process: a run breaks the same rule in all of its nodes.
    static BROKEN: AtomicU8 = AtomicU8::new(NONE);
    static SILENT: AtomicBool = AtomicBool::new(false);
    const NONE: u8 = u8::MAX;

    /// Whether this rule is broken in this run.
    pub fn is(mutation: Mutation) -> bool {
        BROKEN.load(Ordering::Relaxed) == mutation as u8
    }

    /// Breaks this rule, or none, from now on in every node of the process.
    pub fn select(mutation: Option<Mutation>) {
        let number = mutation.map_or(NONE, |mutation| mutation as u8);
        BROKEN.store(number, Ordering::Relaxed);
    }

    /// Whether invariants are asserted.
    pub fn asserts() -> bool {
        !SILENT.load(Ordering::Relaxed)
    }

    /// Turns the asserts of this process on or off.
    pub fn set_asserts(on: bool) {
        SILENT.store(!on, Ordering::Relaxed);
    }
}

#[cfg(not(feature = "mutations"))]
mod switch {
    use super::Mutation;

    /// Whether this rule is broken in this run: never, in this build.
    #[inline(always)]
    pub const fn is(_: Mutation) -> bool {
        false
    }

    /// Whether invariants are asserted: always, in this build.
    #[inline(always)]
    pub const fn asserts() -> bool {
        true
    }
}

pub use switch::*;

/// Asserts an invariant, in release too. (A mutation run can turn these off, nobody else.)
#[macro_export]
macro_rules! invariant {
    ($holds:expr, $($what:tt)+) => {
        if $crate::mutation::asserts() {
            assert!($holds, $($what)+);
        }
    };
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_mutation_is_found_by_its_name_and_no_two_share_one() {
        let names: BTreeSet<&str> = Mutation::ALL.iter().map(|m| m.name()).collect();
        assert_eq!(names.len(), Mutation::ALL.len());
        for mutation in Mutation::ALL {
            assert_eq!(Mutation::named(mutation.name()), Some(*mutation));
        }
        assert_eq!(Mutation::named("none"), None);
    }
}
