//! Packets on a slow line. (in a comment)
const std = @import("std");
const Allocator = std.mem.Allocator;

/// The longest packet.
pub const max_length: usize = 512;
var opened: u32 = 0;
threadlocal var errors: u8 = 0;

/// What may go wrong.
pub const LineError = error{
    Busy,
    TooLong,
};

/// How urgent a packet is.
pub const Priority = enum(u8) {
    low = 1,
    high,

    pub fn label(self: Priority) []const u8 {
        return if (self == .low) "in a string" else "high";
    }
};

pub const Body = union(enum) {
    text: []const u8,
    number: i64,
    none,
};

/// One packet.
pub const Packet = struct {
    const Self = @This();
    pub const empty = Packet{ .body = .none };

    body: Body,
    priority: Priority = .low,

    /// Make a packet.
    pub fn init(
        allocator: Allocator, // where it lives
        text: []const u8,
    ) LineError!Self {
        _ = allocator;
        if (text.len > max_length) return LineError.TooLong;
        return Self{ .body = .{ .text = text } };
    }

    const Inner = struct {
        depth: u8,
        fn deeper(self: Inner) u8 {
            return self.depth + 1;
        }
    };
};

extern "c" fn usleep(micros: c_uint) c_int;

fn List(comptime T: type) type {
    return struct {
        items: []T,
        pub fn first(self: @This()) ?T {
            return if (self.items.len > 0) self.items[0] else null;
        }
    };
}

pub fn settle(packet: Packet) !void {
    const text =
        \\many lines in a string
    ;
    _ = text;
    opened += 1;
    _ = packet.priority.label();
}

test "a packet settles" {
    try settle(Packet.empty);
}
