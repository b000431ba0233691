# The public names of `adjourn.store`, and where each is defined. At run time they are read from here (`adjourn._public`).

from adjourn.store.base import EMPTY as EMPTY
from adjourn.store.base import LATEST as LATEST
from adjourn.store.base import NO_REFS as NO_REFS
from adjourn.store.base import NO_SWAPS as NO_SWAPS
from adjourn.store.base import ZERO_HASH as ZERO_HASH
from adjourn.store.base import Append as Append
from adjourn.store.base import Appended as Appended
from adjourn.store.base import Entry as Entry
from adjourn.store.base import Head as Head
from adjourn.store.base import Store as Store
from adjourn.store.base import Swap as Swap
from adjourn.store.memory import MemoryStore as MemoryStore
from adjourn.store.memory import OverlayStore as OverlayStore
from adjourn.store.postgres import PostgresStore as PostgresStore
from adjourn.store.postgres_link import describe_server as describe_server
from adjourn.store.postgres_link import is_prepared as is_prepared
from adjourn.store.postgres_migration import migrate_postgres as migrate_postgres
from adjourn.store.sqlite import SqliteStore as SqliteStore
from adjourn.store.url import open_store as open_store

__all__: list[str]
