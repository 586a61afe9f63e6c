"""The 48 edge cases of warm pools, each with the test that decides it in the core, or why it is decided elsewhere."""

from typing import Final

ADAPTERS: Final = "adapters"
"""Decided where objects are read and written, on a real API server."""
BATCH: Final = "batch"
"""Belongs to batch admission: fillers and gangs."""
BACKEND: Final = "backend"
"""Belongs to a backend that is not there: static NodePools, CapacityBuffers, sleeping engines."""

CASES: Final[dict[int, tuple[str, tuple[str, ...] | str]]] = {
    1: ("all tiers without capacity, then one recovers", (
        "test_with_every_tier_out_less_than_one_slot_a_minute_is_created",
        "test_when_one_tier_recovers_the_pool_fills_from_it")),
    2: ("capacity missing in one zone only", (
        "test_missing_capacity_in_one_zone_leaves_the_other_to_the_scheduler",)),
    3: ("a storm of static replicas without capacity", BACKEND),
    4: ("quota or addresses exhausted, seen as missing capacity", (
        "test_two_signs_open_a_circuit_and_one_does_not",)),
    5: ("a claim deleted between list and watch", (
        "test_claims_that_vanish_before_their_launch_are_signs_without_any_event",)),
    6: ("NodeClass not ready", ("test_a_nodepool_that_cannot_be_used_is_passed_over_and_told",)),
    7: ("registration never happens", ("test_a_slot_goes_with_a_reason",)),
    8: ("node ready, GPU never registers", ("test_a_node_whose_gpus_never_come_loses_slot_and_claim",)),
    9: ("GPU count wrong or changed by MIG or time-slicing", (
        "test_a_slot_counts_where_its_node_fits", "test_nodes_short_of_gpus_and_claims_without_any_are_told")),
    10: ("GPU vanishes later", ("test_a_slot_counts_where_its_node_fits", "test_a_slot_goes_with_a_reason")),
    11: ("readiness taint put back on a live node", ("test_a_warm_slot_on_a_gated_node_counts_no_more",)),
    12: ("slot preempted while it still pulls", ("test_a_slot_that_vanishes_under_way_is_ordered_again",)),
    13: ("two bursts preempt the same slot", ("test_two_bursts_never_get_the_same_slot",)),
    14: ("the preemptor dies: no thrash", (
        "test_a_replica_that_waits_no_more_gives_the_slot_back", "test_free_nodes_are_used_while_capacity_is_missing")),
    15: ("slot stuck terminating", ("test_a_deletion_that_does_not_end_is_told_and_keeps_its_room",)),
    16: ("consolidation between lease and bind", ADAPTERS),
    17: ("do-not-disrupt left over after a crash", ADAPTERS),
    18: ("controller down for hours", ("test_after_hours_without_a_controller_ended_slots_are_replaced",)),
    19: ("two replicas after the loss of the lease", ("test_two_controllers_give_the_same_names",)),
    20: ("NodePool edited or deleted by somebody", (
        "test_a_nodepool_that_cannot_be_used_is_passed_over_and_told",
        "test_only_nodepools_of_ours_are_edited_and_only_when_they_differ")),
    21: ("a template edit drifts everything while the budget is 0", (
        "test_drift_is_held_and_told_and_our_own_nodepools_are_mended",)),
    22: ("many nodes of the same age", (
        "test_nodes_of_one_age_retire_one_after_another_once_a_successor_is_warm",
        "test_lives_differ_so_that_slots_made_together_do_not_end_together")),
    23: ("limits reached", ("test_limits_of_nodepool_and_tier_are_kept_and_the_rest_goes_to_the_next_tier",)),
    24: ("limits exceeded by parallel launches", (
        "test_limits_that_were_exceeded_already_order_nothing_and_are_told",)),
    25: ("half of the warm set interrupted", ("test_interrupted_slots_are_replaced_at_once",)),
    26: ("a capacity block ends while a filler runs", BATCH),
    27: ("a drift canary fails its smoke test", ADAPTERS),
    28: ("a zone outage makes minima infeasible", (
        "test_a_zones_minimum_is_ordered_in_the_zone_and_told_where_it_cannot_be",)),
    29: ("a gang needs one clique", BATCH),
    30: ("a gang bound in part is rolled back", BATCH),
    31: ("a filler ignores its end", BATCH),
    32: ("a disruption budget blocks static scale-down", BACKEND),
    33: ("Karpenter restarts or is not in sync", ("test_no_slot_is_ordered_while_it_would_do_harm",)),
    34: ("events twice, compaction, a lost watch", (
        "test_two_signs_of_one_claim_and_a_repeated_event_count_once", "test_signs_told_again_change_nothing",
        "test_slots_that_were_not_read_are_left_alone")),
    35: ("clock skew in stage timings", ("test_instants_out_of_order_give_no_sample_and_are_counted",)),
    36: ("cache disk full, content changed, image collected", (
        "test_images_that_keep_failing_stop_all_orders_until_one_warms",
        "test_slots_with_other_content_are_made_anew_gradually_and_at_once_while_cold")),
    37: ("image tag moved", (
        "test_slots_with_other_content_are_made_anew_gradually_and_at_once_while_cold",
        "test_another_image_behind_the_same_tag_is_other_content")),
    38: ("sleep endpoint that does nothing", BACKEND),
    39: ("PriorityClass missing or too low", ("test_no_slot_is_ordered_while_it_would_do_harm",)),
    40: ("max 0, min above max, no forecast, NaN", (
        "test_a_faulty_pool_is_refused_with_field_and_remedy", "test_what_is_not_known_never_shrinks",
        "test_a_forecast_never_lowers")),
    41: ("forecast of nothing beside a queue", (
        "test_a_forecast_of_nothing_beside_waiting_replicas_keeps_what_growth_asks_for",)),
    42: ("a SKU whose provider reports no GPU", ("test_nodes_short_of_gpus_and_claims_without_any_are_told",)),
    43: ("slot pinned to a NodePool that was removed", (
        "test_a_nodepool_that_cannot_be_used_is_passed_over_and_told", "test_a_slot_goes_with_a_reason")),
    44: ("CapacityBuffer ready with uninitialized nodes", BACKEND),
    45: ("differences between Karpenter's versions", ADAPTERS),
    46: ("no metrics of prices or offerings", ADAPTERS),
    47: ("pods by resource claim", ("test_workloads_by_resource_claim_are_refused_with_a_remedy",)),
    48: ("MIG is reconfigured under a mark", ("test_a_marked_slot_on_a_node_that_is_divided_anew_goes",)),
}  # fmt: skip
"""Number -> (words, the tests by name, or where it is decided)."""
