-- Bookings of a small hotel. (in a comment)
CREATE SCHEMA hotel;

/* Guests,
   in a comment */
CREATE TABLE hotel.guests (
    id bigint PRIMARY KEY,
    name text NOT NULL DEFAULT 'in a string', -- as they write it
    born date
);

CREATE TYPE room_kind AS ENUM ('single', 'double');

CREATE TABLE IF NOT EXISTS bookings (
    id serial,
    guest_id bigint REFERENCES hotel.guests (id),
    kind room_kind,
    nights integer CHECK (nights > 0),
    CONSTRAINT bookings_key PRIMARY KEY (id)
);

CREATE UNIQUE INDEX bookings_by_guest ON bookings (guest_id);

-- What a stay costs.
CREATE OR REPLACE FUNCTION price_of(
    nights integer, -- how long
    kind room_kind
) RETURNS numeric AS $$
    SELECT nights * CASE kind WHEN 'single' THEN 80 ELSE 120 END;
$$ LANGUAGE sql;

CREATE VIEW open_bookings AS
    SELECT b.id, g.name AS guest, price_of(b.nights, b.kind) AS total
    FROM bookings AS b
    JOIN hotel.guests AS g ON g.id = b.guest_id;

CREATE MATERIALIZED VIEW income AS
    SELECT sum(total) AS total FROM open_bookings;

CREATE SEQUENCE invoice_numbers START 1000;

CREATE TRIGGER bookings_checked
    BEFORE INSERT ON bookings
    FOR EACH ROW EXECUTE FUNCTION check_booking();

ALTER TABLE bookings ADD COLUMN paid boolean DEFAULT false;

WITH long_stays AS (
    SELECT id FROM bookings WHERE nights > 7
)
DELETE FROM bookings WHERE id IN (SELECT id FROM long_stays);

INSERT INTO hotel.guests (id, name) VALUES (1, 'Ada in a string');
