-- Partitions by stream, second half, once all events are in the new table: it takes the place of the old one.
DROP TABLE adjourn_migration;
DROP TABLE adjourn_event;
DROP FUNCTION adjourn_copy();
ALTER TABLE adjourn_event_new RENAME TO adjourn_event;
ALTER INDEX adjourn_event_new_pkey RENAME TO adjourn_event_pkey;
CREATE TRIGGER adjourn_schema BEFORE INSERT ON adjourn_event FOR EACH STATEMENT EXECUTE FUNCTION adjourn_check_schema();
