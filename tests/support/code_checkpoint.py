"""The checkpoint file of a coding session."""

from __future__ import annotations

from typing import Any

from support.code_server import QUERY

FULL: dict[str, Any] = {
    "session_id": "session_20260131_123456",
    "intent": "MODIFY",
    "query": QUERY,
    "created_at": "2026-01-31T12:00:00",
    "repo_path": ".",
    "decision_log": None,
    "current_phase": "READY",
    "ready_substep": "implement",
    "gate_level": "full",
    "risk_level": "MEDIUM",
    "query_frame": {
        "raw_query": QUERY,
        "target_feature": "discount",
        "trigger_condition": None,
        "observed_issue": None,
        "desired_action": "fix",
        "mapped_symbols": [
            {
                "name": "apply_discount",
                "source": "FACT",
                "confidence": 0.9,
                "evidence": {
                    "tool": "find_definitions",
                    "params": {"symbol": "x"},
                    "result_summary": "1",
                    "timestamp": "t",
                },
            }
        ],
        "slot_source": {"target_feature": "FACT"},
        "slot_evidence": {"target_feature": {"tool": "query", "result_summary": "r"}},
        "slot_quotes": {"target_feature": "discount"},
        "missing_slots": ["trigger_condition"],
    },
    "exploration": {
        "symbols_identified": ["apply_discount"],
        "entry_points": ["checkout()"],
        "existing_patterns": ["pure functions"],
        "files_analyzed": ["app/cart.py"],
        "tools_used": ["search_text"],
        "notes": "n",
        "evaluated_confidence": "high",
        "missing_requirements": [],
    },
    "semantic": {
        "hypotheses": [{"text": "h", "confidence": "low"}],
        "semantic_reason": "no_definition_found",
        "search_queries": ["q"],
    },
    "verification": {
        "verified": [
            {
                "hypothesis": "h",
                "status": "confirmed",
                "evidence": {"tool": "search_text", "target": "t", "result": "r", "files": ["app/shop.py"]},
            }
        ],
        "all_confirmed": True,
    },
    "impact_analysis": {
        "target_files": ["app/cart.py"],
        "must_verify": ["app/shop.py"],
        "should_verify": [],
        "verified_files": [{"file": "app/shop.py", "status": "not_affected", "reason": "calls total only"}],
        "inferred_from_rules": [],
        "mode": "standard",
    },
    "pre_commit_review": {
        "total_changes": 1,
        "reviewed_files": [{"path": "a", "decision": "discard", "reason": "r", "change_type": "added"}],
        "kept_files": [],
        "discarded_files": ["a"],
        "review_notes": "rn",
    },
    "task_branch_name": None,
    "task_branch_enabled": False,
    "map_results": [{"id": "m"}],
    "forest_results": [{"id": "f"}],
    "map_hit": True,
    "tool_calls": [
        {
            "tool": "search_text",
            "params": {"pattern": "x"},
            "phase": "EXPLORATION",
            "started_at": "s",
            "completed_at": "c",
            "duration_seconds": 0.5,
            "result_summary": "1 found",
            "result_detail": {"status": "success", "hit_count": 1},
        }
    ],
    "phase_history": [{"phase": "EXPLORATION", "reason": "r", "started_at": "s", "ended_at": "e", "step": 5}],
    "verification_failure_count": 1,
    "intervention_count": 1,
    "failure_history": [{"details": "d"}],
    "quality_revert_count": 2,
    "quality_review_enabled": False,
    "quality_review_max_revert": 5,
    "quality_review_completed": True,
    "commit_prepared": True,
    "prepared_commit_message": "m",
    "prepared_kept_files": ["k"],
    "prepared_discarded_files": ["d"],
    "skip_implementation": False,
    "phase_assessments": {"Q1": {"needs_more_information": False, "reason": "r"}},
    "tasks": [
        {"id": "t1", "description": "one", "status": "completed", "failure_count": 1, "revert_reason": "rr"},
        {"id": "t2", "description": "CSS fix task", "status": "pending"},
    ],
    "no_verify": True,
    "no_quality": True,
    "fast_mode": True,
    "quick_mode": True,
    "no_doc": True,
    "no_intervention": True,
    "only_explore": False,
    "only_verify": True,
    "definitions_cache": {'["apply_discount", "/x/app", null, true]': {"total": 1}, "no key": {"total": 2}},
    "cache_stats": {"hits": 1, "misses": 2},
    "checkpoint_version": "1.12",
    "checkpoint_at": "2026-01-31T12:34:56",
}
"""A checkpoint in the published form, every field away from its default."""
