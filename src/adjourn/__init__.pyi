# The public names of `adjourn`, and where each is defined. At run time they are read from here (`adjourn._public`).

from adjourn.adapters.anthropic import ResumableAnthropic as ResumableAnthropic
from adjourn.adapters.openai import ResumableOpenAI as ResumableOpenAI
from adjourn.errors import AdjournError as AdjournError
from adjourn.errors import ConflictError as ConflictError
from adjourn.errors import IntegrityError as IntegrityError
from adjourn.errors import InvalidError as InvalidError
from adjourn.errors import NotFoundError as NotFoundError
from adjourn.errors import RefusedError as RefusedError
from adjourn.errors import StoreError as StoreError
from adjourn.errors import UsageError as UsageError
from adjourn.knowledge.brief.compose import brief as brief
from adjourn.knowledge.brief.compose import format_state_for_prompt as format_state_for_prompt
from adjourn.knowledge.cognition.checkpoints import RestoredSession as RestoredSession
from adjourn.knowledge.cognition.checkpoints import Validity as Validity
from adjourn.knowledge.cognition.checkpoints import create_checkpoint as create_checkpoint
from adjourn.knowledge.cognition.checkpoints import estimate_tokens as estimate_tokens
from adjourn.knowledge.cognition.checkpoints import restore_checkpoint as restore_checkpoint
from adjourn.knowledge.cognition.checkpoints import validate_checkpoint as validate_checkpoint
from adjourn.knowledge.cognition.deltas import diff_checkpoints as diff_checkpoints
from adjourn.knowledge.cognition.middleware import Call as Call
from adjourn.knowledge.cognition.middleware import Dialect as Dialect
from adjourn.knowledge.cognition.middleware import Middleware as Middleware
from adjourn.knowledge.cognition.middleware import ModelReply as ModelReply
from adjourn.knowledge.cognition.repository import Trigger as Trigger
from adjourn.knowledge.cognition.store import CognitiveStore as CognitiveStore
from adjourn.knowledge.cognition.store import SessionOptions as SessionOptions
from adjourn.knowledge.cognition.transitions import move_goal as move_goal
from adjourn.knowledge.model.cognition import Branch as Branch
from adjourn.knowledge.model.cognition import CheckpointDiff as CheckpointDiff
from adjourn.knowledge.model.cognition import CognitiveCheckpoint as CognitiveCheckpoint
from adjourn.knowledge.model.cognition import CognitiveNode as CognitiveNode
from adjourn.knowledge.model.cognition import CognitiveSession as CognitiveSession
from adjourn.knowledge.model.cognition import EpistemicState as EpistemicState
from adjourn.knowledge.model.cognition import IntentGraph as IntentGraph
from adjourn.knowledge.model.cognition import NodePhase as NodePhase
from adjourn.knowledge.model.cognition import NodeStatus as NodeStatus
from adjourn.knowledge.model.cognition import NodeType as NodeType
from adjourn.knowledge.model.cognition import ToolBinding as ToolBinding
from adjourn.knowledge.model.cognition import parse_reply as parse_reply
from adjourn.knowledge.model.record import ContinuationRecord as ContinuationRecord
from adjourn.knowledge.model.record import CRAuthor as CRAuthor
from adjourn.knowledge.model.record import CRBlocker as CRBlocker
from adjourn.knowledge.model.record import CRDecision as CRDecision
from adjourn.knowledge.model.record import CRDiff as CRDiff
from adjourn.knowledge.model.record import CREvent as CREvent
from adjourn.knowledge.model.record import CRInvariant as CRInvariant
from adjourn.knowledge.model.record import CRLearning as CRLearning
from adjourn.knowledge.model.record import CRMergeResult as CRMergeResult
from adjourn.knowledge.model.record import CRQuestion as CRQuestion
from adjourn.knowledge.model.record import CRResumePoint as CRResumePoint
from adjourn.knowledge.model.record import CRToolEffect as CRToolEffect
from adjourn.knowledge.model.record import Strategy as Strategy
from adjourn.knowledge.records.effect_lookup import EffectCall as EffectCall
from adjourn.knowledge.records.store import CRStore as CRStore
from adjourn.store.base import Store as Store
from adjourn.store.memory import MemoryStore as MemoryStore
from adjourn.store.postgres import PostgresStore as PostgresStore
from adjourn.store.sqlite import SqliteStore as SqliteStore
from adjourn.store.url import open_store as open_store

__version__: str

__all__: list[str]
