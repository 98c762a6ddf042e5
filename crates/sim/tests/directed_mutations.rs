//! Rules that the random workload breaks too seldom to be seen, broken under the scenario that is about
//! them: it fails, with the asserts of the engine and the node and without.
//!
//! `cargo test --workspace --features mutations --test directed_mutations`
#![allow(dead_code)] // of the scenarios' common parts this uses some

#[path = "scenarios/caller.rs"]
mod caller;
#[path = "scenarios/certificates.rs"]
mod certificates;
#[path = "scenarios/claims.rs"]
mod claims;
#[path = "scenarios/clusters.rs"]
mod clusters;
#[path = "scenarios/copies.rs"]
mod copies;
#[path = "scenarios/crossings.rs"]
mod crossings;
#[path = "scenarios/directory.rs"]
mod directory;
#[path = "scenarios/doors.rs"]
mod doors;
#[path = "scenarios/doorstep.rs"]
mod doorstep;
#[path = "scenarios/drawn.rs"]
mod drawn;
#[path = "scenarios/handed.rs"]
mod handed;
#[path = "scenarios/histories.rs"]
mod histories;
#[path = "scenarios/hosted.rs"]
mod hosted;
#[path = "scenarios/hosts.rs"]
mod hosts;
#[path = "scenarios/large_reads.rs"]
mod large_reads;
#[path = "scenarios/min_copies.rs"]
mod min_copies;
#[path = "scenarios/model.rs"]
mod model;
#[path = "scenarios/moves.rs"]
mod moves;
#[path = "scenarios/names.rs"]
mod names;
#[path = "scenarios/overtaken.rs"]
mod overtaken;
#[path = "scenarios/past.rs"]
mod past;
#[path = "scenarios/patrons.rs"]
mod patrons;
#[path = "scenarios/porters.rs"]
mod porters;
#[path = "scenarios/rebuilt.rs"]
mod rebuilt;
#[path = "scenarios/recovery.rs"]
mod recovery;
#[path = "scenarios/revocations.rs"]
mod revocations;
#[path = "scenarios/spaces.rs"]
mod spaces;
#[path = "scenarios/stage.rs"]
mod stage;
#[path = "scenarios/still.rs"]
mod still;
#[path = "scenarios/streamed/mod.rs"]
mod streamed;
#[path = "scenarios/tickets_shown.rs"]
mod tickets_shown;
#[path = "scenarios/tokens.rs"]
mod tokens;
#[path = "scenarios/tokens_ending.rs"]
mod tokens_ending;
#[path = "scenarios/tokens_joining.rs"]
mod tokens_joining;
#[path = "scenarios/verdict.rs"]
mod verdict;

use std::panic::{AssertUnwindSafe, catch_unwind};

use paxos::mutation::Mutation;
use sim::mutations::Broken;

const RULES: [(Mutation, fn()); 127] = [
    (
        Mutation::LargeWaitsForItself,
        large_reads::a_command_that_reads_much_waits_for_no_room_that_it_takes_itself,
    ),
    (
        Mutation::NameFreedBeforeTheSeal,
        directory::an_append_acknowledged_after_its_log_was_deleted_and_made_anew_is_in_one_of_them,
    ),
    (
        Mutation::StuckHostLeadsOn,
        still::a_leader_whose_host_stands_still_hands_over,
    ),
    (
        Mutation::StuckLaneLeadsOn,
        still::a_leader_whose_shelf_takes_nothing_hands_over,
    ),
    (
        Mutation::CutOffServesStale,
        revocations::a_node_that_is_cut_off_for_a_minute_takes_no_new_reads_that_ask_nobody,
    ),
    (
        Mutation::TicketNotCut,
        tickets_shown::a_ticket_may_what_it_says_as_far_as_its_issuer_may,
    ),
    (
        Mutation::ExpiredTicketGoesOn,
        tickets_shown::a_ticket_ends_by_the_later_clock_and_with_its_issuer,
    ),
    (
        Mutation::CertificateByWord,
        certificates::whose_certificate_was_shown_is_believed_of_nodes_that_are_members_alone,
    ),
    (
        Mutation::EndedCertificateGoesOn,
        certificates::a_certificate_is_nobodys_until_its_name_is_bound_and_again_once_it_has_ended,
    ),
    (
        Mutation::AnotherClusterServed,
        clusters::a_request_that_names_another_cluster_does_nothing,
    ),
    (
        Mutation::StaleWishTrims,
        overtaken::a_retention_that_a_later_wish_overtook_trims_nothing,
    ),
    (
        Mutation::StaleWishReconfigures,
        overtaken::a_step_of_weights_that_a_later_wish_overtook_is_not_taken,
    ),
    (
        Mutation::ReplayActs,
        directory::weights_of_yesterday_move_nothing_while_log_0_is_replayed,
    ),
    (
        Mutation::RescueKeepsTheWish,
        recovery::what_a_survivor_held_durably_lives_on_whenever_the_others_were_lost,
    ),
    (
        Mutation::IncarnationNotDurable,
        past::an_old_copy_is_refused_by_peers_that_started_meanwhile,
    ),
    (
        Mutation::OlderStartAdmitted,
        past::an_old_copy_is_refused_after_any_number_of_starts,
    ),
    (
        Mutation::ActsBeforeItAsks,
        past::an_old_copy_of_when_it_was_alone_leads_nothing,
    ),
    (
        Mutation::EvidenceIgnored,
        past::an_old_copy_believes_what_its_own_disk_said_whoever_shows_it,
    ),
    (
        Mutation::TodaysEndsBelieved,
        past::a_copy_is_judged_by_what_it_found_and_not_by_what_it_wrote_since,
    ),
    (
        Mutation::DisksNeedNoProof,
        past::nobody_claims_a_disk_without_its_key,
    ),
    (
        Mutation::GuestDeniedAtOnce,
        hosted::two_banks_in_one_node_lose_no_coin_and_pay_none_twice,
    ),
    (
        Mutation::HostAnswersBeforeChosen,
        hosts::lists_on_shelves_are_as_was_said_whatever_fails,
    ),
    (
        Mutation::HostShowsUnchosen,
        hosts::lists_on_shelves_are_as_was_said_whatever_fails,
    ),
    (
        Mutation::HostAnswersOfOlderReign,
        hosts::lists_on_shelves_are_as_was_said_whatever_fails,
    ),
    (
        Mutation::HostLeadsBeforeApplied,
        hosts::lists_on_shelves_are_as_was_said_whatever_fails,
    ),
    (
        Mutation::HostKeepsOverlay,
        hosts::lists_on_shelves_are_as_was_said_whatever_fails,
    ),
    (
        Mutation::HostForgetsLaterWrites,
        hosts::lists_on_shelves_are_as_was_said_whatever_fails,
    ),
    (
        Mutation::HostReadsWithoutBarrier,
        hosts::lists_on_shelves_are_as_was_said_whatever_fails,
    ),
    (
        Mutation::HostReadsBeforeApplied,
        hosts::lists_on_shelves_are_as_was_said_whatever_fails,
    ),
    (
        Mutation::HostSeesForgotten,
        drawn::a_state_is_what_its_log_comes_to_on_every_replica_whatever_fails,
    ),
    (
        Mutation::TrimBehindOneState,
        hosts::a_log_is_not_trimmed_behind_one_state,
    ),
    (
        Mutation::DoubtedStatesCount,
        hosts::a_state_that_differs_is_given_to_nobody,
    ),
    (
        Mutation::WordsOutliveProcesses,
        hosts::a_word_on_a_state_ends_with_its_process,
    ),
    (
        Mutation::ShortStatesCount,
        hosts::a_member_stays_until_the_states_of_others_do_without_it,
    ),
    (
        Mutation::PieceBelowApplied,
        hosts::states_are_copied_while_their_log_goes_on,
    ),
    (
        Mutation::CopyIntoOldState,
        hosts::states_are_copied_while_their_log_goes_on,
    ),
    (
        Mutation::CopyIntoOldState,
        drawn::a_state_is_what_its_log_comes_to_on_every_replica_whatever_fails,
    ),
    (
        Mutation::CopyWholeTooEarly,
        copies::a_copy_is_whole_once_the_log_has_come_to_its_last_piece,
    ),
    (
        Mutation::ContradictingStateInstalled,
        past::a_replica_does_not_replace_what_is_chosen_by_less,
    ),
    (
        Mutation::CallsOfTheGoneKept,
        doorstep::a_held_command_is_dropped_with_its_connection,
    ),
    (
        Mutation::SentPutBackAtOnce,
        doorstep::what_nobody_here_knows_ends_the_line_without_a_word,
    ),
    (
        Mutation::ReadsOvertaken,
        doorstep::a_read_is_not_done_behind_a_write_that_its_line_asked_for_later,
    ),
    (
        Mutation::OrderOvertaken,
        doors::drawn_commands_are_answered_as_the_logs_say_whatever_fails,
    ),
    (
        Mutation::OnceDoneAgain,
        doorstep::what_a_session_sends_again_is_done_once,
    ),
    (
        Mutation::CommandsReadWithoutBarrier,
        doorstep::a_deposed_leader_answers_no_read,
    ),
    (
        Mutation::TimeGoesBack,
        doors::drawn_commands_are_answered_as_the_logs_say_whatever_fails,
    ),
    (
        Mutation::FrameSkipped,
        doors::drawn_commands_are_answered_as_the_logs_say_whatever_fails,
    ),
    (
        Mutation::HistoryNotCompared,
        histories::a_state_of_another_history_is_made_anew,
    ),
    (
        Mutation::AppliedApart,
        doors::drawn_commands_are_answered_as_the_logs_say_whatever_fails,
    ),
    (
        Mutation::RepliesOutOfOrder,
        doors::drawn_commands_are_answered_as_the_logs_say_whatever_fails,
    ),
    (
        Mutation::UnknownRedirected,
        doorstep::what_nobody_here_knows_ends_the_line_without_a_word,
    ),
    (
        Mutation::GroupsNotAwaited,
        doors::drawn_commands_are_answered_as_the_logs_say_whatever_fails,
    ),
    (
        Mutation::SpreadAnsweredHalf,
        doorstep::a_command_of_all_groups_is_answered_by_all_of_them,
    ),
    (
        Mutation::FreeingTakesAllReserve,
        doorstep::full_disks_take_what_frees_room_of_half_of_their_reserve,
    ),
    (
        Mutation::SlotsChangedByAnOldMap,
        doorstep::a_node_that_is_cut_off_takes_no_move_back,
    ),
    (
        Mutation::SlotOfAnotherGroup,
        doors::drawn_commands_are_answered_as_the_logs_say_whatever_fails,
    ),
    (
        Mutation::ExpiryNotNoted,
        doorstep::what_expired_stays_gone_though_the_next_clock_is_slower,
    ),
    (
        Mutation::WatchesOutliveReigns,
        doorstep::a_watch_does_not_outlive_its_leader,
    ),
    (
        Mutation::WatchedChangesUnseen,
        doors::drawn_commands_are_answered_as_the_logs_say_whatever_fails,
    ),
    (
        Mutation::HostAnswersBeforeChosen,
        doors::drawn_commands_are_answered_as_the_logs_say_whatever_fails,
    ),
    (
        Mutation::HostShowsUnchosen,
        doors::drawn_commands_are_answered_as_the_logs_say_whatever_fails,
    ),
    (
        Mutation::HostForgetsLaterWrites,
        doors::drawn_commands_are_answered_as_the_logs_say_whatever_fails,
    ),
    (
        Mutation::ServedWithoutToken,
        moves::slots_move_while_clients_write,
    ),
    (
        Mutation::ChangesNotNoted,
        moves::slots_move_while_clients_write,
    ),
    (
        Mutation::PrefixesNotNoted,
        crossings::what_is_deleted_while_it_is_copied_does_not_arrive,
    ),
    (
        Mutation::FreezeOfOldWish,
        handed::a_wish_that_was_overtaken_takes_no_slot_away,
    ),
    (
        Mutation::ReleaseOfFrozen,
        handed::what_is_frozen_for_a_group_is_not_given_up,
    ),
    (
        Mutation::FoundedAgain,
        crossings::a_slot_is_wanted_elsewhere_at_each_step_and_versions_are_skipped,
    ),
    (
        Mutation::PagesInAnyOrder,
        handed::a_page_of_another_place_is_not_taken,
    ),
    (
        Mutation::TailsInAnyOrder,
        handed::changes_of_another_place_are_not_taken,
    ),
    (
        Mutation::OwnedBeforeFrozen,
        moves::slots_move_while_clients_write,
    ),
    (
        Mutation::OwnedWithoutTail,
        moves::slots_move_while_clients_write,
    ),
    (
        Mutation::GoneUnasked,
        crossings::the_leader_of_the_group_that_takes_dies_at_each_step,
    ),
    (
        Mutation::TimeLeftBehind,
        handed::the_time_of_a_slot_moves_with_it,
    ),
    (
        Mutation::FrozenSlotsExpire,
        moves::drawn_moves_lose_nothing_whatever_fails,
    ),
    (
        Mutation::HandedOutWhenLost,
        tokens_ending::what_its_maker_lost_before_it_was_applied_is_not_handed_out,
    ),
    (
        Mutation::HandedOutWhatIsLacked,
        tokens::nobody_hands_out_what_he_lacks_then_and_when_it_is_applied,
    ),
    (
        Mutation::HandedOutByNobody,
        tokens::the_first_token_is_made_over_the_socket_of_any_node_and_by_nobody_who_shows_nothing,
    ),
    (
        Mutation::NameNotBound,
        names::who_says_that_he_is_a_node_and_shows_anothers_certificate_or_none_is_not_believed,
    ),
    (
        Mutation::OnceLetsInTwo,
        tokens_joining::a_token_that_is_good_once_lets_one_node_in_and_the_same_one_again,
    ),
    (
        Mutation::AskedForThoughNoneMayAll,
        tokens::the_first_token_is_made_over_the_socket_of_any_node_and_by_nobody_who_shows_nothing,
    ),
    (
        Mutation::ExpiredGoesOn,
        tokens_ending::a_token_expires_by_the_later_clock_though_a_node_was_set_back,
    ),
    (
        Mutation::ExpiryByTheWallAlone,
        tokens_ending::a_token_expires_by_the_later_clock_though_a_node_was_set_back,
    ),
    (
        Mutation::OverlapWithoutEnd,
        tokens::two_secrets_are_good_for_a_while_and_then_one,
    ),
    (
        Mutation::HashesComparedInPart,
        tokens_ending::a_secret_whose_hash_begins_alike_is_another,
    ),
    (
        Mutation::ServedByAnOldDirectory,
        tokens::a_node_that_starts_serves_nobody_by_what_may_be_old,
    ),
    (
        Mutation::ServedByAnOldDirectory,
        tokens_ending::a_node_of_last_week_takes_no_token_that_was_revoked_since,
    ),
    (
        Mutation::DeniedByAnOldWord,
        tokens_ending::a_node_that_lags_denies_no_token_that_was_just_made,
    ),
    (
        Mutation::RevokedGoesOn,
        tokens::writers_and_readers_are_ended_when_their_token_is_revoked_and_others_go_on,
    ),
    (
        Mutation::RevokedGoesOn,
        tokens_ending::a_revoked_tokens_reader_goes_on_at_a_node_that_is_cut_off_until_that_hears,
    ),
    (
        Mutation::AsBelievedOfClients,
        tokens::the_first_token_is_made_over_the_socket_of_any_node_and_by_nobody_who_shows_nothing,
    ),
    (
        Mutation::LogZeroCovered,
        tokens_ending::no_grant_shows_the_bytes_of_log_0,
    ),
    (
        Mutation::CopiesNotAwaited,
        min_copies::what_was_acknowledged_is_on_as_many_disks_as_the_log_wants,
    ),
    (
        Mutation::BehindCountsAsCopy,
        min_copies::a_voter_that_was_away_is_a_copy_again_once_it_holds_what_was_chosen_meanwhile,
    ),
    (
        Mutation::FirstClaimIgnored,
        claims::a_move_leaves_the_log_to_its_writer_whoever_comes_first,
    ),
    (
        Mutation::KnownAppendedAgain,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::StaleEpochAppends,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::GapTaken,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::ProducersShared,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::ClosedGrows,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::ClosedBeforeKnown,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::TailNotCompared,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::TailBeforeKnown,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::SequenceNotCompared,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::LineageIgnored,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::InheritedRenamed,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::ForkNotCounted,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::HeldNameFree,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::SubPastAppend,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::UseNotNoted,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::EighthNotAdded,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::OverLivesOn,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::AppendIsNoUse,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::IdUsedAgain,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::BytesOutliveStream,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::BytesCountedForEver,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::ReleasedSourceKept,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::HeldBytesTrimmed,
        streamed::retained::a_stream_keeps_what_its_retention_says_and_what_forks_hold,
    ),
    (
        Mutation::TooMuchTrimmed,
        streamed::retained::a_stream_keeps_what_its_retention_says_and_what_forks_hold,
    ),
    (
        Mutation::YoungBytesTrimmed,
        streamed::retained::a_stream_keeps_what_its_retention_says_and_what_forks_hold,
    ),
    (
        Mutation::TrimmedIsEmpty,
        streamed::retained::a_stream_keeps_what_its_retention_says_and_what_forks_hold,
    ),
    (
        Mutation::MessageCut,
        streamed::drawn_requests_are_answered_as_the_rules_say,
    ),
    (
        Mutation::UnknownAskedAgain,
        spaces::a_stream_whose_making_was_not_answered_does_not_come_back,
    ),
    (
        Mutation::SilentTakenForNever,
        streamed::numbered::every_answer_of_a_space_is_explained_by_one_order,
    ),
    (
        Mutation::StaleLooks,
        streamed::numbered::every_answer_of_a_space_is_explained_by_one_order,
    ),
    (
        Mutation::HostAnswersBeforeChosen,
        streamed::numbered::every_answer_of_a_space_is_explained_by_one_order,
    ),
    (
        Mutation::KnownAppendedAgain,
        streamed::numbered::every_answer_of_a_space_is_explained_by_one_order,
    ),
];

/// A broken rule is broken in the whole process, so this is one test. Where no rule is broken each scenario holds.
#[test]
fn a_scenario_fails_where_its_rule_does_not_hold() {
    let mut unseen = Vec::new();
    // RULES=copy-into-old-state,… looks at these alone.
    let only = std::env::var("RULES").ok();
    let is_asked = |name: &str| {
        only.as_ref()
            .is_none_or(|only| only.split(',').any(|one| one == name))
    };
    let mut whole: Vec<fn()> = Vec::new();
    for (rule, scenario) in RULES.into_iter().filter(|(rule, _)| is_asked(rule.name())) {
        if !whole
            .iter()
            .any(|other| std::ptr::fn_addr_eq(*other, scenario))
        {
            scenario();
            whole.push(scenario);
            println!("{}: whole, all is well", rule.name());
        }
        for asserts in [true, false] {
            let _broken = Broken::new(Some(rule), asserts);
            let fails = catch_unwind(AssertUnwindSafe(scenario)).is_err();
            println!("{}, asserts {asserts}: seen {fails}", rule.name());
            if !fails {
                unseen.push((rule, asserts));
            }
        }
    }
    assert_eq!(unseen, [], "nobody noticed");
}
