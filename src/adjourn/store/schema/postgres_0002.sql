-- A connection says which schema its program knows. One that knows the first only is stopped, with words that it shows. Once a
-- statement, not once a row.
CREATE FUNCTION adjourn_check_schema() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(nullif(current_setting('adjourn.schema', true), ''), '1')::integer < 2 THEN
        RAISE EXCEPTION 'this store has schema 2; update adjourn, then start this process again' USING ERRCODE = 'ZA001';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER adjourn_schema BEFORE INSERT ON adjourn_event FOR EACH STATEMENT EXECUTE FUNCTION adjourn_check_schema();

-- Events are inserted and never changed. So vacuum has nothing to remove: it freezes each page once, soon after it is full, and not
-- years of them at once.
ALTER TABLE adjourn_event SET (
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05, autovacuum_freeze_min_age = 0
);
-- Leases and caches are written again and again: with room on its page, a new version of a row needs no new place in the index.
ALTER TABLE adjourn_ref SET (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_scale_factor = 0.05
);
-- Documents are deleted and forgotten many at once, and their bytes are in the TOAST table.
ALTER TABLE adjourn_blob SET (
    autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.05
);
