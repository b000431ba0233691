-- Partitions by stream, first half: a table that is filled beside the one in use. `adjourn.partitions` is their number. The second
-- half is partitions_switch.sql.
CREATE TABLE adjourn_event_new (
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL CHECK (seq >= 0),
    hash text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (stream, seq)
) PARTITION BY HASH (stream);

-- Settings and grants are those of the old table.
DO $$
DECLARE
    number integer := current_setting('adjourn.partitions')::integer;
    settings text := (SELECT coalesce(array_to_string(reloptions, ', '), 'fillfactor = 100')
        FROM pg_class WHERE oid = 'adjourn_event'::regclass);
    given record;
BEGIN
    FOR part IN 0..number - 1 LOOP
        EXECUTE format('CREATE TABLE adjourn_event_%s PARTITION OF adjourn_event_new '
            'FOR VALUES WITH (MODULUS %s, REMAINDER %s) WITH (%s)', part, number, part, settings);
    END LOOP;
    FOR given IN
        SELECT privilege_type AS privilege, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role
        FROM pg_class, aclexplode(relacl) WHERE oid = 'adjourn_event'::regclass AND grantee <> relowner
    LOOP
        EXECUTE format('GRANT %s ON adjourn_event_new TO %s', given.privilege, given.role);
        FOR part IN 0..number - 1 LOOP
            EXECUTE format('GRANT %s ON adjourn_event_%s TO %s', given.privilege, part, given.role);
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
