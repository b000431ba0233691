// Tracks of a music player. (in a comment)
library player;

import 'dart:async';
import 'package:path/path.dart' as p;
part 'player_state.dart';

const int maxTracks = 500;
final String greeting = 'in a string';
var opened = 0, closed = 0;

typedef Listener = void Function(Track track);

/// What the player does now.
enum Mode {
  idle,
  playing('now');

  const Mode([this.label]);
  final String? label;
  bool get busy => this == playing;
}

abstract class Source {
  String get name;
  /// Opens the source.
  Future<void> open(Uri place);
}

mixin Rated on Source {
  int stars = 0;
  void rate(int stars) => this.stars = stars;
}

/// One track.
class Track {
  static const silence = Track._('', Duration.zero);
  final String title;
  final Duration length;
  late int plays = 0;

  const Track._(this.title, this.length);
  factory Track.parse(String line) {
    return Track._(line, Duration.zero);
  }

  Duration get rest => length;
  set rest(Duration value) {}

  bool operator ==(Object other) => other is Track && other.title == title;
}

/// Plays tracks.
class Player extends Source with Rated {
  final _queue = <Track>[];
  @override
  String get name => 'player';

  /// Adds a track to the queue.
  @override
  Future<bool> add(
    Track track, // what to play
    {int times = 1}
  ) async {
    bool allowed(int count) => count <= maxTracks;
    final before = _queue.length;
    if (allowed(before + times)) _queue.add(track);
    return true;
  }

  static Player create() => Player();
  Future<void> open(Uri place) async {}
}

extension Titles on List<Track> {
  Iterable<String> get titles => map((track) => track.title);
}

String describe(Track track, {bool long = false}) {
  return "${track.title} in a string";
}

int get count => opened - closed;

void main() => print(describe(Track.silence));
