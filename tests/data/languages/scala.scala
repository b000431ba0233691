// Weather stations and what they measured. (in a comment)
package weather.stations

import scala.collection.mutable
import java.time.{Instant, Duration as Span}

/** How often a station reports. */
val Interval: Int = 15
var received = 0
type Kelvin = Double

enum Quality(val weight: Int):
  case Good extends Quality(3)
  case Doubtful, Broken

sealed trait Reading {
  def at: Instant
  /** Whether it can be used. */
  def usable(limit: Double): Boolean
}

final case class Temperature(at: Instant, kelvin: Kelvin) extends Reading {
  def usable(limit: Double): Boolean = kelvin > limit
}

case object Silence extends Reading {
  val at: Instant = Instant.EPOCH
  def usable(limit: Double): Boolean = false
}

/**
 * A station.
 */
class Station(val name: String, private var height: Int)(using clock: Clock) {
  private val readings = mutable.Buffer.empty[Reading]
  lazy val label = s"in a string: ${name.trim}"
  val (low, high) = (0, 100)

  def this(name: String) = this(name, 0)

  /** Adds a reading. */
  def record[R <: Reading](
      reading: R, // what came in
      trusted: Boolean = true
  ): Station = {
    def allowed(count: Int): Boolean = count < Interval
    val before = readings.size
    if (allowed(before)) readings += reading
    this
  }

  class Sensor(id: Int) {
    def probe(): Kelvin = 0.0
  }
}

object Station {
  val Prefix = "S-"
  type Name = String
  def apply(name: String): Station = new Station(Prefix + name)
  given ordering: Ordering[Station] = Ordering.by(_.name)
}

package object defaults {
  def nowhere: Station = Station("nowhere")
}

extension (station: Station)
  def quiet: Boolean = station.label.isEmpty

def average(values: Seq[Double]): Double =
  values.sum / values.size
