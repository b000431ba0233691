-- The second schema, first half: events in partitions by stream, filled beside the table that is in use. The second half is
-- postgres_0002_switch.sql. An empty store runs both in one transaction.
--
-- 8 partitions: a statement with a kept plan locks the table and all its partitions, and the server takes up to 16 locks of a
-- transaction without its shared table of locks.
CREATE TABLE adjourn_event_new (
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL CHECK (seq >= 0),
    hash text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (stream, seq)
) PARTITION BY HASH (stream);

-- Events are inserted and never changed. So vacuum has nothing to remove: it freezes each page once, soon after it is full, and not
-- years of them at once. The grants of the old table are those of the new one.
DO $$
DECLARE
    part text;
    given record;
BEGIN
    FOR number IN 0..7 LOOP
        part := 'adjourn_event_' || number;
        EXECUTE format('CREATE TABLE %I PARTITION OF adjourn_event_new FOR VALUES WITH (MODULUS 8, REMAINDER %s) WITH ('
            'autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05, autovacuum_freeze_min_age = 0)',
            part, number);
    END LOOP;
    FOR given IN
        SELECT privilege_type AS privilege, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role
        FROM pg_class, aclexplode(relacl) WHERE oid = 'adjourn_event'::regclass AND grantee <> relowner
    LOOP
        EXECUTE format('GRANT %s ON adjourn_event_new TO %s', given.privilege, given.role);
        FOR number IN 0..7 LOOP
            EXECUTE format('GRANT %s ON %I TO %s', given.privilege, 'adjourn_event_' || number, given.role);
        END LOOP;
    END LOOP;
END
$$;

-- The last key that was copied, in the order of keys.
CREATE TABLE adjourn_migration (
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL
);
INSERT INTO adjourn_migration VALUES ('', -1);

-- From here on an append is in both tables, or was not made. A row that is there already would be another one: an error.
-- With the rights of the owner, since whoever appends may have rights for the old table only.
CREATE FUNCTION adjourn_copy() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO adjourn_event_new VALUES (new.stream, new.seq, new.hash, new.data);
    RETURN NULL;
END
$$;
CREATE TRIGGER adjourn_copy AFTER INSERT ON adjourn_event FOR EACH ROW EXECUTE FUNCTION adjourn_copy();
